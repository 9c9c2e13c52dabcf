package collective

import "time"

// Two ranks that poll on one CPU, and yield to each other, look to the scheduler like a machine with nothing to balance: they may stay
// together for seconds while another CPU is free, at three times the latency. MPI libraries bind ranks to CPUs for that reason, which
// hurts as soon as two jobs share a machine. Here a rank that notices it moves to a CPU of its own, and stays free to be moved again.

const (
	sharedYield  = 5 * time.Microsecond   // a yield that takes longer ran somebody else
	sharedWithin = 200 * time.Microsecond // operations that take longer waited for something else
	sharedOften  = 16                     // operations in a row
	firstNudge   = 50 * time.Millisecond  // until the next one, doubled each time
	lastNudge    = 10 * time.Second
)

// sharing notices that this rank shares its CPU with another one.
type sharing struct {
	row   int           // operations in a row that looked like it
	pause time.Duration // between moves
	moved time.Time
}

// seen takes in an operation that yielded so many times; it reports whether the rank should move.
func (s *sharing) seen(now time.Time, took time.Duration, yields int) bool {
	if yields == 0 || took > sharedWithin || took < time.Duration(yields)*sharedYield {
		s.row = 0
		return false
	}
	s.row++
	if s.row < sharedOften || now.Sub(s.moved) < s.pause {
		return false
	}
	s.row, s.moved, s.pause = 0, now, min(max(2*s.pause, firstNudge), lastNudge)
	return true
}
