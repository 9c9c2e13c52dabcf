package bench

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fpmrun/fpmrun/collective"
)

// exchangeSize is how many values rank from sends to rank to in a round: nothing, some, and more than a first part.
func exchangeSize(round, from, to int) int {
	switch round {
	case 0:
		return 0
	case 1:
		return (3*from + 5*to) % 7
	case 2:
		return firstValues - 1 + (from+to)%3
	}
	return (from*to + round) % 5 * 700
}

// content is value k of what rank from sends to rank to.
func content(round, from, to, k int) float32 { return float32(((round*10+from)*10+to)*5000 + k) }

// exchange does a round on one rank, with the expected result checked.
func exchange(g *ExpertGroup, round int, send, recv []float32, sendSizes, recvSizes []int) error {
	send, recv = send[:0], recv[:0]
	for i := range g.Size() {
		sendSizes[i], recvSizes[i] = exchangeSize(round, g.Rank(), i), exchangeSize(round, i, g.Rank())
		for k := range sendSizes[i] {
			send = append(send, content(round, g.Rank(), i, k))
		}
		for range recvSizes[i] {
			recv = append(recv, -1)
		}
	}
	if err := g.AllToAll(recv, recvSizes, send, sendSizes); err != nil {
		return err
	}
	at := 0
	for i, n := range recvSizes {
		for k := range n {
			if want := content(round, i, g.Rank(), k); recv[at+k] != want {
				return fmt.Errorf("rank %d: value %d from rank %d is %g, want %g", g.Rank(), k, i, recv[at+k], want)
			}
		}
		at += n
	}
	return nil
}

// eachRank runs a function on every rank at once and fails the test with its errors.
func eachRank(t *testing.T, comms []*collective.Comm, f func(rank int, comm *collective.Comm) error) {
	t.Helper()
	var wg sync.WaitGroup
	for rank, comm := range comms {
		wg.Go(func() {
			if err := f(rank, comm); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	wg.Wait()
}

func TestExpertExchange(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 8} {
		eachRank(t, world(t, n), func(_ int, comm *collective.Comm) error {
			g := NewExpertGroup(comm)
			sendSizes, recvSizes := make([]int, n), make([]int, n)
			for round := range 9 {
				if err := exchange(g, round, nil, nil, sendSizes, recvSizes); err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
			}
			return nil
		})
	}
}

// Sizes that do not agree name both ranks and both sizes, and nothing is delivered.
func TestExpertExchangeOfOtherSizes(t *testing.T) {
	eachRank(t, world(t, 3), func(rank int, comm *collective.Comm) error {
		recv, sizes := make([]float32, 6), []int{2, 2, 2}
		if rank == 1 {
			sizes = []int{2, 2, 1}
		}
		err := NewExpertGroup(comm).AllToAll(recv, sizes, make([]float32, 6), []int{2, 2, 2})
		if rank == 1 && (err == nil || !strings.Contains(err.Error(), "rank 2 sends 2 values where rank 1 expects 1")) {
			return fmt.Errorf("got %w", err)
		}
		if rank != 1 {
			return err
		}
		return nil
	})
}

// Once its memory has grown, an exchange allocates nothing, short or long.
func TestExpertExchangeAllocatesNothing(t *testing.T) {
	const n, runs = 4, 50
	comms := tcpWorld(t, n)
	memory := func() (send, recv []float32, sendSizes, recvSizes []int) {
		return make([]float32, 0, 20000), make([]float32, 0, 20000), make([]int, n), make([]int, n)
	}
	both := func(g *ExpertGroup, send, recv []float32, sendSizes, recvSizes []int) error {
		for _, round := range []int{1, 2, 3} {
			if err := exchange(g, round, send, recv, sendSizes, recvSizes); err != nil {
				return err
			}
		}
		return nil
	}
	ends := make(chan error, n)
	for _, comm := range comms[1:] {
		go func() {
			g := NewExpertGroup(comm)
			send, recv, sendSizes, recvSizes := memory()
			for range runs + 1 { // AllocsPerRun warms up with one
				if err := both(g, send, recv, sendSizes, recvSizes); err != nil {
					ends <- err
					return
				}
			}
			ends <- nil
		}()
	}
	g := NewExpertGroup(comms[0])
	send, recv, sendSizes, recvSizes := memory()
	allocations := testing.AllocsPerRun(runs, func() {
		if err := both(g, send, recv, sendSizes, recvSizes); err != nil {
			t.Error(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations in three exchanges", allocations)
	}
	for range comms[1:] {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}
