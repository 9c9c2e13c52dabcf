package cpu

import (
	"runtime"
	"sync/atomic"

	"github.com/fpmrun/fpmrun/gpu"
)

// sleeper is where one goroutine waits for something that others bring about and then call rouse. The padding keeps two
// of them out of one cache line.
type sleeper struct {
	asleep *atomic.Bool
	wake   chan struct{}
	_      [48]byte
}

func newSleeper() sleeper { return sleeper{asleep: new(atomic.Bool), wake: make(chan struct{}, 1)} }

// await returns when ready reports true. It looks for a while first, if spins allows it, and sleeps then.
func (s *sleeper) await(spins bool, ready func() bool) {
	deadline := int64(0)
	for round := 1; spins; round++ {
		if ready() {
			return
		}
		if pause(round); round%64 != 0 {
			continue
		}
		now := gpu.Monotonic()
		if deadline == 0 {
			deadline = now + spin
		}
		if now > deadline {
			break
		}
	}
	for !ready() {
		s.asleep.Store(true)
		// What happened before this goroutine was seen asleep has not roused it.
		if ready() && s.asleep.CompareAndSwap(true, false) {
			return
		}
		<-s.wake // a late rouse of something that was awaited before wakes it for nothing
	}
}

// rouse wakes the goroutine if it sleeps.
func (s *sleeper) rouse() {
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		s.wake <- struct{}{}
	}
}

// pause lets others run: always the other thread of this core, now and then goroutines that wait for this processor, and
// less often other threads.
func pause(round int) {
	relax()
	if round%64 == 0 {
		runtime.Gosched()
	}
	if round%512 == 0 {
		yield()
	}
}
