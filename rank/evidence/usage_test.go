package evidence

import (
	"runtime"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/rank/evidence/evidencetest"
)

// measured runs work as the middle one of three steps.
func measured(t *testing.T, work func()) (u *Usage) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	u = NewUsage()
	u.Reset(3)
	u.Mark()
	u.Mark()
	work()
	u.Mark()
	u.Mark()
	if n := len(u.Steps()); n != 3 {
		t.Fatalf("%d steps, want 3", n)
	}
	return u
}

func TestForcedCollection(t *testing.T) {
	steps := measured(t, runtime.GC).Steps()
	for i, want := range []int{0, 1, 0} {
		if steps[i].CollectorCycles != want {
			t.Errorf("step %d: %d collector cycles, want %d", i, steps[i].CollectorCycles, want)
		}
	}
}

func TestPageFaults(t *testing.T) {
	const pages = 500
	memory, err := unix.Mmap(-1, 0, pages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(memory); err != nil {
			t.Error(err)
		}
	}()
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil {
		t.Fatal(err)
	}
	steps := measured(t, func() {
		for i := range pages {
			memory[i*4096] = 1
		}
	}).Steps()
	if steps[1].MinorFaults < pages || steps[0].MinorFaults > pages/10 || steps[2].MinorFaults > pages/10 {
		t.Errorf("minor faults %d, %d, %d; want at least %d in the middle", steps[0].MinorFaults, steps[1].MinorFaults, steps[2].MinorFaults, pages)
	}
}

// A second process on this thread's only CPU takes it away, again and again.
func TestStolenCPU(t *testing.T) {
	const want = 8
	steps := measured(t, func() { evidencetest.StealCPU(t, want) }).Steps()
	if steps[1].InvoluntarySwitches < want || steps[0].InvoluntarySwitches >= want || steps[2].InvoluntarySwitches >= want {
		t.Errorf("involuntary switches %d, %d, %d; want at least %d in the middle", steps[0].InvoluntarySwitches, steps[1].InvoluntarySwitches, steps[2].InvoluntarySwitches, want)
	}
	if steps[1].CPUTime <= 0 {
		t.Errorf("%v s of CPU", steps[1].CPUTime)
	}
}

func TestMarksAllocateNothing(t *testing.T) {
	u := NewUsage()
	u.Reset(1000)
	if n := testing.AllocsPerRun(100, u.Mark); n != 0 {
		t.Errorf("%v allocations for a mark", n)
	}
	u.Reset(1)
	for range 5 {
		u.Mark()
	}
	if got := cap(u.marks); len(u.Steps()) >= 1000 && got < 1000 {
		t.Errorf("%d steps", len(u.Steps()))
	}
}

func BenchmarkMark(b *testing.B) {
	u := NewUsage()
	u.Reset(1)
	for b.Loop() {
		u.Reset(1)
		u.Mark()
	}
}
