package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// outputTerminal is an outputPipe whose write end is a pseudo terminal, on which C programs print line by line. What is written
// there arrives as it is: line ends are not changed.
func outputTerminal() (read *os.File, write int, err error) {
	master, write, err := openTerminal()
	if err != nil {
		return nil, 0, fmt.Errorf("--pty: %w", err)
	}
	read, fd, err := outputPipe()
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, 0, errors.Join(err, master.Close(), unix.Close(write))
	}
	pipe := os.NewFile(uintptr(fd), "output of a terminal")
	go func() {
		// The end of a terminal that nobody has open any more is an error, EIO, that tells nothing.
		_, _ = io.Copy(pipe, master)
		pipe.Close()
		master.Close()
	}()
	return read, write, nil
}

// openTerminal makes a pseudo terminal: its master, and a descriptor of its other side for a rank.
func openTerminal() (master *os.File, other int, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			master.Close()
		}
	}()
	raw, err := master.SyscallConn()
	if err != nil {
		return nil, 0, err
	}
	number := 0
	if cerr := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); cerr != nil || err != nil {
		return nil, 0, errors.Join(cerr, err)
	}
	if other, err = unix.Open("/dev/pts/"+strconv.Itoa(number), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
		return nil, 0, err
	}
	mode, err := unix.IoctlGetTermios(other, unix.TCGETS)
	if err == nil {
		mode.Oflag &^= unix.OPOST
		mode.Lflag &^= unix.ECHO
		err = unix.IoctlSetTermios(other, unix.TCSETS, mode)
	}
	if err != nil {
		return nil, 0, errors.Join(err, unix.Close(other))
	}
	return master, other, nil
}
