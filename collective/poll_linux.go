package collective

import (
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tryRead and tryWrite enter the kernel without telling the Go scheduler: on a non-blocking socket they return at once, and what the
// scheduler does around a system call costs as much as the call. The descriptor must stay open meanwhile.
func tryRead(fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return 0, errAgain
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		}
		return int(n), nil
	}
}

func tryWrite(fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
			unix.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return 0, errAgain
		case errno != 0:
			return 0, errno
		}
		return int(n), nil
	}
}

// yield lets another process run. Where ranks outnumber the CPUs this is what makes polling cheap.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
