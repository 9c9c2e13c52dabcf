package cpu

import (
	"sync"
	"sync/atomic"
)

// threads is a fixed set of goroutines that share the items of one task at a time. The goroutine that calls
// run works too, as worker 0.
type threads struct {
	wake  []chan struct{} // one per helper; worker i+1 listens on wake[i]
	busy  sync.WaitGroup  // helpers still in the current task
	ended sync.WaitGroup  // helpers still alive

	task  func(worker, item int)
	items int64
	next  atomic.Int64
}

func newThreads(n int) *threads {
	t := &threads{wake: make([]chan struct{}, n-1)}
	for i := range t.wake {
		t.wake[i] = make(chan struct{}, 1)
		t.ended.Go(func() {
			for range t.wake[i] {
				t.share(i + 1)
				t.busy.Done()
			}
		})
	}
	return t
}

// run calls task once for each item from 0 to items-1, on all workers, and returns when all calls have. It
// does not allocate as long as task is a function value that was made before.
func (t *threads) run(items int, task func(worker, item int)) {
	t.task, t.items = task, int64(items)
	t.next.Store(0)
	helpers := min(len(t.wake), items-1)
	for i := range helpers {
		t.busy.Add(1)
		t.wake[i] <- struct{}{}
	}
	t.share(0)
	t.busy.Wait()
}

func (t *threads) share(worker int) {
	for {
		item := t.next.Add(1) - 1
		if item >= t.items {
			return
		}
		t.task(worker, int(item))
	}
}

// close ends the helpers. No run may be in progress.
func (t *threads) close() {
	for _, c := range t.wake {
		close(c)
	}
	t.ended.Wait()
}
