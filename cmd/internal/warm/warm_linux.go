// Package warm makes the heap of a program's start present in one system call. Page by page, as they are first used, each costs a fault: on virtual machines
// some 10 us, 2 ms of a start that takes 8. A program whose start counts imports it for this effect alone; by its path it is initialised before
// the packages that allocate most.
package warm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	start = 640 << 10 // bytes of heap that a start takes from here on
	grown = 4 << 20   // bytes that the Go runtime takes from the system at a time, at a multiple of their number
)

// first is the first object of a page of its own: the heap goes on behind it.
var first = new([8 << 10]byte)

func init() {
	from := uintptr(unsafe.Pointer(first)) //nolint:gosec // an address, never followed
	// Kernels before 5.14 do not know this advice, and faults do without.
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, min(start, grown-from%grown), unix.MADV_POPULATE_WRITE)
}
