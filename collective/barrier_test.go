package collective

import (
	"sync"
	"testing"
)

// lateBarrier is a barrier that one rank comes to after all others are on their way into it. Every other must see the delay: nobody leaves before the last has come.
func lateBarrier(t *testing.T, comms []*Comm, late int) {
	t.Helper()
	var mu sync.Mutex
	arrived := 0
	waiting := make(chan struct{}, len(comms))
	each(comms, func(rank int, c *Comm) {
		if rank == late {
			for range len(comms) - 1 {
				<-waiting
			}
		}
		mu.Lock()
		arrived++
		mu.Unlock()
		waiting <- struct{}{}
		if err := c.Barrier(t.Context()); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if arrived != len(comms) {
			t.Errorf("rank %d left when %d of %d had come", rank, arrived, len(comms))
		}
	})
}

// Every rank in turn is late.
func TestBarrierWaitsForEveryRank(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		for late := range comms {
			lateBarrier(t, comms, late)
		}
	})
}

// The first barrier of a large group waits for every rank too, and opens a connection for each rank but one.
func TestFirstBarrierOfALargeGroup(t *testing.T) {
	for _, n := range []int{firstTreeMin, 21} {
		comms := joinAll(t, n, false, nil)
		for late := range comms {
			groups := make([]*Comm, n)
			each(comms, func(rank int, c *Comm) {
				var err error
				if groups[rank], err = c.Dup(t.Context()); err != nil {
					t.Error(err)
				}
			})
			lateBarrier(t, groups, late)
			links := 0
			for _, c := range groups {
				for _, l := range c.links {
					if l != nil {
						links++
					}
				}
				c.Close()
			}
			if links != 2*(n-1) {
				t.Errorf("%d ranks have %d ends of connections, want %d", n, links, 2*(n-1))
			}
		}
	}
}
