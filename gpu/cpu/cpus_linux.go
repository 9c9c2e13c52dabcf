package cpu

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ownCPUs are the CPUs that this process was bound to, when there is one for each of n workers: whoever bound it gave it
// these CPUs for itself, so each worker may stay on one. It is nil when the process may run anywhere or has another
// number of workers; the workers then stay within the process's mask as the kernel sees fit.
func ownCPUs(n int) []int {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil || mask.Count() != n {
		return nil
	}
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil || countCPUs(string(text)) <= n {
		return nil
	}
	var cpus []int
	for c := 0; len(cpus) < n; c++ {
		if mask.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// countCPUs is the number of CPUs in a list such as 0-3,8; 0 when it cannot be read.
func countCPUs(list string) int {
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.Atoi(first)
		b, errB := strconv.Atoi(last)
		if errA != nil || errB != nil {
			return 0
		}
		n += b - a + 1
	}
	return n
}

// bind keeps the calling goroutine on one CPU for the rest of its life; its thread ends with it. Where the kernel
// refuses, it stays within the process's mask.
func bind(cpu int) {
	runtime.LockOSThread()
	var mask unix.CPUSet
	mask.Set(cpu)
	_ = unix.SchedSetaffinity(0, &mask) // a slower worker is no wrong result
}

// yield lets another thread have this CPU.
func yield() {
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
