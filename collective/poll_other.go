//go:build unix && !linux

package collective

import (
	"io"
	"runtime"

	"golang.org/x/sys/unix"
)

func tryRead(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, errAgain
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

func tryWrite(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Write(fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, errAgain
		}
		return n, err
	}
}

func yield() { runtime.Gosched() }
