package evidence

import (
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/artifact"
)

// Usage counts, over each step of a point, what the kernel and the Go runtime did to this process. Methods are called from one goroutine.
type Usage struct {
	marks  []mark
	cycles []metrics.Sample
}

// mark is the counters at one moment, since the process began.
type mark struct {
	usage  unix.Rusage
	cycles uint64
	failed bool // the kernel did not tell
}

// NewUsage makes the counter.
func NewUsage() *Usage {
	u := &Usage{cycles: []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}}
	metrics.Read(u.cycles) // the first read allocates
	return u
}

// Reset forgets all marks and makes room for those of n steps.
func (u *Usage) Reset(n int) {
	if cap(u.marks) < n+1 {
		u.marks = make([]mark, 0, n+1)
	}
	u.marks = u.marks[:0]
}

// Mark takes the counters. Without room it does nothing.
func (u *Usage) Mark() {
	if len(u.marks) == cap(u.marks) {
		return
	}
	u.marks = u.marks[:len(u.marks)+1]
	m := &u.marks[len(u.marks)-1]
	metrics.Read(u.cycles)
	m.cycles = u.cycles[0].Value.Uint64()
	m.failed = unix.Getrusage(unix.RUSAGE_SELF, &m.usage) != nil
}

// Steps is what happened between each two marks. Without the kernel's counters it is nil.
func (u *Usage) Steps() []artifact.StepEvidence {
	var steps []artifact.StepEvidence
	for i := 1; i < len(u.marks); i++ {
		a, b := &u.marks[i-1], &u.marks[i]
		if a.failed || b.failed {
			return nil
		}
		steps = append(steps, artifact.StepEvidence{
			CollectorCycles: int(b.cycles - a.cycles),
			MinorFaults:     int(b.usage.Minflt - a.usage.Minflt), MajorFaults: int(b.usage.Majflt - a.usage.Majflt),
			VoluntarySwitches: int(b.usage.Nvcsw - a.usage.Nvcsw), InvoluntarySwitches: int(b.usage.Nivcsw - a.usage.Nivcsw),
			CPUTime: artifact.Float((cpuTime(&b.usage) - cpuTime(&a.usage)).Seconds()),
		})
	}
	return steps
}

func cpuTime(u *unix.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
