package cpu

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Every item of every task is worked on once, by a worker that exists, and run returns after the last.
func TestThreadsShareItems(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			pool := newThreads(workers, nil)
			defer pool.close()
			counts := make([]atomic.Int32, 300)
			var wrong atomic.Int32
			task := func(worker, item int) {
				counts[item].Add(1)
				if worker < 0 || worker >= workers {
					wrong.Add(1)
				}
			}
			for round := range 2000 {
				items := round % len(counts)
				pool.run(items, task)
				for i := range counts {
					want := int32(0)
					if i < items {
						want = 1
					}
					if got := counts[i].Swap(0); got != want {
						t.Fatalf("round %d of %d items: item %d was worked on %d times", round, items, i, got)
					}
				}
			}
			if wrong.Load() > 0 {
				t.Errorf("%d items were given to workers that do not exist", wrong.Load())
			}
		})
	}
}

// Helpers that fell asleep are woken, and close ends them.
func TestThreadsWakeUp(t *testing.T) {
	pool := newThreads(3, nil)
	for range 3 {
		for i := range pool.helpers {
			for !pool.helpers[i].asleep.Load() {
				runtime.Gosched()
			}
		}
		// Three items that wait for each other need three workers.
		var here atomic.Int32
		pool.run(3, func(int, int) {
			here.Add(1)
			for here.Load() < 3 {
				runtime.Gosched()
			}
		})
	}
	pool.close()
}

func TestWorkersStayOnTheirCPUs(t *testing.T) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for c := 0; len(cpus) < min(2, mask.Count()); c++ {
		if mask.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	cpus = append(cpus, cpus[0]) // workers 1 and 2 are bound, worker 0 is this goroutine
	pool := newThreads(len(cpus), cpus)
	defer pool.close()
	got := make([]unix.CPUSet, len(cpus))
	errs := make([]error, len(cpus))
	var here atomic.Int32
	pool.run(len(cpus), func(worker, _ int) {
		errs[worker] = unix.SchedGetaffinity(0, &got[worker])
		here.Add(1)
		for int(here.Load()) < len(cpus) {
			runtime.Gosched()
		}
	})
	for w := 1; w < len(cpus); w++ {
		if errs[w] != nil || got[w].Count() != 1 || !got[w].IsSet(cpus[w]) {
			t.Errorf("worker %d may run on %d CPUs, want CPU %d alone: %v", w, got[w].Count(), cpus[w], errs[w])
		}
	}
}

func TestOwnCPUs(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-3,8\n": 5, "0-15": 16, "": 0, "all": 0} {
		if got := countCPUs(list); got != want {
			t.Errorf("%q lists %d CPUs, want %d", list, got, want)
		}
	}
	if cpus := ownCPUs(runtime.NumCPU() + 1); cpus != nil {
		t.Errorf("more workers than CPUs are bound to %v", cpus)
	}
	var mask, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		t.Fatal(err)
	}
	if mask.Count() < 2 {
		t.Skip("this process has one CPU; it cannot be bound to fewer")
	}
	runtime.LockOSThread() // the thread ends with this goroutine
	first := 0
	for !mask.IsSet(first) {
		first++
	}
	one.Set(first)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Skipf("this kernel binds no thread: %v", err)
	}
	if cpus := ownCPUs(1); len(cpus) != 1 || cpus[0] != first {
		t.Errorf("bound to CPU %d, own CPUs %v", first, cpus)
	}
	if cpus := ownCPUs(2); cpus != nil {
		t.Errorf("two workers on one CPU are bound to %v", cpus)
	}
}

// BenchmarkThreads is the time until every worker has begun a task, with workers that look for work and with workers that
// sleep at once.
func BenchmarkThreads(b *testing.B) {
	for _, spins := range []bool{true, false} {
		b.Run(fmt.Sprintf("spins=%v", spins), func(b *testing.B) {
			workers := runtime.GOMAXPROCS(0)
			pool := startThreads(workers, nil, spins)
			defer pool.close()
			var here atomic.Int64
			round := int64(0)
			task := func(int, int) {
				here.Add(1)
				for i := 1; here.Load() < round*int64(workers); i++ {
					pause(i)
				}
			}
			for b.Loop() {
				round++
				pool.run(workers, task)
			}
		})
	}
}
