package collective

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// moveTo puts the calling thread on the index-th of the CPUs it may use, and leaves it free to go elsewhere.
func moveTo(index int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var allowed, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || index >= allowed.Count() {
		return
	}
	for cpu := 0; ; cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		if index == 0 {
			one.Set(cpu)
			break
		}
		index--
	}
	if unix.SchedSetaffinity(0, &one) == nil {
		_ = unix.SchedSetaffinity(0, &allowed) // as it was: cannot fail
	}
}
