package collective

import "golang.org/x/sys/unix"

// yield lets another process run. Where ranks outnumber the CPUs this is what makes polling cheap.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
