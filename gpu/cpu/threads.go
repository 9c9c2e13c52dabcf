package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// spin is how long a worker that has nothing to do looks for the next task, or for the end of this one, before it sleeps,
// in nanoseconds: longer than the pause between two tasks of a step, shorter than most pauses between steps. Waking a
// sleeping thread takes some 10 us, and a step has hundreds of tasks.
const spin = 100_000

// threads is a fixed set of goroutines that share the items of one task at a time. The goroutine that calls
// run works too, as worker 0. Where every worker can have a CPU, idle ones look for work for a while before they sleep.
type threads struct {
	caller  sleeper
	helpers []sleeper
	ended   sync.WaitGroup // helpers still alive
	spins   bool
	closing atomic.Bool

	isFinished func() bool // t.finished, made once

	task func(worker, item int)
	turn atomic.Uint32 // counts tasks
	left atomic.Int64  // items that nobody has taken; below 0 when a worker came too late
	due  atomic.Int64  // items of the task that are not ready
}

// newThreads starts n-1 helpers, worker w bound to cpus[w] where cpus is not nil.
func newThreads(n int, cpus []int) *threads {
	return startThreads(n, cpus, n <= runtime.GOMAXPROCS(0))
}

func startThreads(n int, cpus []int, spins bool) *threads {
	t := &threads{caller: newSleeper(), helpers: make([]sleeper, n-1), spins: spins}
	t.isFinished = t.finished
	for i := range t.helpers {
		t.helpers[i] = newSleeper()
		t.ended.Go(func() {
			if cpus != nil {
				bind(cpus[i+1])
			}
			t.help(i)
		})
	}
	return t
}

// run calls task once for each item from 0 to items-1, on all workers, and returns when all calls have. It
// does not allocate as long as task is a function value that was made before.
//
// A helper that comes late, even during the next task, does no harm: it takes an item of whatever task is current, or
// none, and a task cannot change while an item of it is being worked on.
func (t *threads) run(items int, task func(worker, item int)) {
	if items <= 1 || len(t.helpers) == 0 {
		for item := range items {
			task(0, item)
		}
		return
	}
	t.task = task
	t.due.Store(int64(items))
	t.left.Store(int64(items))
	t.turn.Add(1)
	for i := range min(len(t.helpers), items-1) {
		t.helpers[i].rouse()
	}
	t.share(0)
	t.caller.await(t.spins, t.isFinished)
}

// finished reports whether the current task is.
func (t *threads) finished() bool { return t.due.Load() == 0 }

// share works on items until none is left.
func (t *threads) share(worker int) {
	ready := int64(0)
	for {
		item := t.left.Add(-1)
		if item < 0 {
			break
		}
		t.task(worker, int(item))
		ready++
	}
	if ready > 0 && t.due.Add(-ready) == 0 && worker > 0 {
		t.caller.rouse()
	}
}

// help takes part in tasks until the threads are closed.
func (t *threads) help(i int) {
	seen := uint32(0)
	another := func() bool { return t.turn.Load() != seen }
	for {
		t.helpers[i].await(t.spins, another)
		if seen = t.turn.Load(); t.closing.Load() {
			return
		}
		t.share(i + 1)
	}
}

// workers is the number of workers, the caller included.
func (t *threads) workers() int { return len(t.helpers) + 1 }

// close ends the helpers. No run may be in progress.
func (t *threads) close() {
	t.closing.Store(true)
	t.turn.Add(1)
	for i := range t.helpers {
		t.helpers[i].rouse()
	}
	t.ended.Wait()
}
