// Package evidencetest does to a process, on purpose, what its evidence must show.
package evidencetest

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// StealCPU lets a second process take the CPU of the calling goroutine's thread away at least n times, while the goroutine computes.
func StealCPU(t testing.TB, n int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var all, one unix.CPUSet
	must(unix.SchedGetaffinity(0, &all))
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	must(unix.SchedSetaffinity(0, &one))
	defer func() { must(unix.SchedSetaffinity(0, &all)) }()
	thief := exec.Command("sh", "-c", "while :; do :; done") // inherits the CPU
	must(thief.Start())
	var before, now unix.Rusage
	must(unix.Getrusage(unix.RUSAGE_THREAD, &before))
	for limit := time.Now().Add(30 * time.Second); int(now.Nivcsw-before.Nivcsw) < n && time.Now().Before(limit); {
		must(unix.Getrusage(unix.RUSAGE_THREAD, &now))
	}
	must(thief.Process.Kill())
	_ = thief.Wait() // it was killed
}
