package collective

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// at is element i of what a rank contributes.
func at(rank, i int) int32 { return int32(1000*rank + i) }

func contribution(rank, length int) []int32 {
	data := make([]int32, length)
	for i := range data {
		data[i] = at(rank, i)
	}
	return data
}

// together is what all ranks contribute, in rank order.
func together(n, length int) []int32 {
	var all []int32
	for rank := range n {
		all = append(all, contribution(rank, length)...)
	}
	return all
}

// The lengths lie on both sides of each change of algorithm; each form also runs in place.
func TestIntoForms(t *testing.T) { everywhere(t, testIntoForms) }

// The same on several hosts: two ranks a host, all but one on the first, and taking turns.
func TestIntoFormsAcrossHosts(t *testing.T) {
	for name, host := range map[string]func(rank int) int{
		"pairs": func(rank int) int { return rank / 2 },
		"apart": func(rank int) int { return rank / 4 },
		"turns": func(rank int) int { return rank % 2 },
	} {
		t.Run(name, func(t *testing.T) {
			comms := joinAll(t, 5, false, func(cfg *Config) { cfg.Host = fmt.Sprint(host(cfg.Rank)) })
			if comms[0].layout == nil {
				t.Fatal("no layout")
			}
			testIntoForms(t, comms)
			each(comms, func(_ int, c *Comm) {
				if err := c.Barrier(t.Context()); err != nil {
					t.Error(err)
				}
				sum, err := AllReduce(t.Context(), c, []float64{0.1, float64(c.Rank())}, Sum)
				if err != nil || sum[1] != 10 {
					t.Errorf("sum %v (%v)", sum, err)
				}
				bits, err := AllReduce(t.Context(), c, []uint64{math.Float64bits(sum[0])}, Xor)
				if err != nil || bits[0] != math.Float64bits(sum[0]) {
					t.Errorf("ranks have different bits (%v)", err)
				}
			})
		})
	}
}

func testIntoForms(t *testing.T, comms []*Comm) {
	n := len(comms)
	for _, length := range []int{0, 1, 5, 3000, 20_000, 100_000} {
		whole := together(n, length)
		for root := range comms {
			each(comms, func(rank int, c *Comm) {
				data := contribution(rank, length)
				if err := BroadcastInto(t.Context(), c, root, data); err != nil || !slices.Equal(data, contribution(root, length)) {
					t.Errorf("broadcast of %d from %d on %d: %v", length, root, rank, err)
				}
				var all []int32
				own := contribution(rank, length)
				if rank == root {
					all = make([]int32, n*length)
					if length%2 == 1 {
						own = all[rank*length:][:length]
						copy(own, contribution(rank, length))
					}
				}
				if err := GatherInto(t.Context(), c, root, all, own); err != nil || rank == root && !slices.Equal(all, whole) {
					t.Errorf("gather of %d to %d: %v", length, root, err)
				}
				got := make([]int32, length)
				if rank == root && length%2 == 1 {
					got = all[rank*length:][:length]
				}
				if err := ScatterInto(t.Context(), c, root, got, all); err != nil || !slices.Equal(got, contribution(rank, length)) {
					t.Errorf("scatter of %d from %d on %d: %v", length, root, rank, err)
				}
				sum := contribution(rank, length)
				if err := ReduceInto(t.Context(), c, root, sum, sum, Sum); err != nil {
					t.Error(err)
				}
				for i, v := range sum {
					if want := int32(1000*n*(n-1)/2 + n*i); rank == root && v != want {
						t.Fatalf("reduce of %d to %d: [%d] = %d, want %d", length, root, i, v, want)
					}
				}
			})
		}
		each(comms, func(rank int, c *Comm) {
			all := make([]int32, n*length)
			own := contribution(rank, length)
			if length%2 == 1 {
				own = all[rank*length:][:length]
				copy(own, contribution(rank, length))
			}
			if err := AllGatherInto(t.Context(), c, all, own); err != nil || !slices.Equal(all, whole) {
				t.Errorf("allgather of %d on %d: %v", length, rank, err)
			}
			swapped := make([]int32, n*length)
			if err := AllToAllInto(t.Context(), c, swapped, whole); err != nil {
				t.Error(err)
			}
			for from := range n {
				if !slices.Equal(swapped[from*length:][:length], contribution(rank, length)) {
					t.Errorf("all-to-all of %d on %d from %d", length, rank, from)
				}
			}
			from := make([]int32, length)
			for turn := range n { // around the ring, one after the other
				if turn == rank && n > 1 {
					if err := SendSlice(t.Context(), c, (rank+1)%n, contribution(rank, length)); err != nil {
						t.Error(err)
					}
				}
				if (turn+1)%n == rank && n > 1 {
					if err := RecvInto(t.Context(), c, turn, from); err != nil || !slices.Equal(from, contribution(turn, length)) {
						t.Errorf("receipt of %d on %d: %v", length, rank, err)
					}
				}
			}
			part := whole[rank*length:][:length:length]
			scattered := slices.Clone(whole)
			if err := ReduceScatterInto(t.Context(), c, scattered[rank*length:][:length], scattered, Sum); err != nil {
				t.Error(err)
			}
			for i, v := range scattered[rank*length:][:length] {
				if v != int32(n)*part[i] {
					t.Fatalf("reduce-scatter of %d on %d: [%d] = %d, want %d", length, rank, i, v, int32(n)*part[i])
				}
			}
		})
	}
}

func TestOverlapIsRefused(t *testing.T) {
	c := joinAll(t, 1, false, nil)[0]
	data := make([]int64, 10)
	for name, err := range map[string]error{
		"allreduce":      AllReduceInto(t.Context(), c, data[1:6], data[:5], Sum),
		"reduce":         ReduceInto(t.Context(), c, 0, data[1:6], data[:5], Sum),
		"gather":         GatherInto(t.Context(), c, 0, data[1:6], data[:5]),
		"scatter":        ScatterInto(t.Context(), c, 0, data[1:6], data[:5]),
		"allgather":      AllGatherInto(t.Context(), c, data[1:6], data[:5]),
		"all-to-all":     AllToAllInto(t.Context(), c, data[:5], data[:5]),
		"reduce-scatter": ReduceScatterInto(t.Context(), c, data[1:6], data[:5], Sum),
		"too short":      AllGatherInto(t.Context(), c, data[:2], data[5:8]),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Barrier(t.Context()); err != nil {
		t.Errorf("refused arguments broke the group: %v", err)
	}
}

// In steady state a barrier, and an allreduce into the caller's memory, allocate nothing.
func TestNoAllocation(t *testing.T) {
	for _, n := range []int{2, 3} {
		comms := joinAll(t, n, true, nil)
		const warm, runs = 20, 200
		for _, length := range []int{1, 1000, 100_000} {
			each(comms, func(rank int, c *Comm) {
				data := make([]float32, length)
				op := func() {
					if err := c.Barrier(t.Context()); err != nil {
						t.Error(err)
					}
					if err := AllReduceInto(t.Context(), c, data, data, Sum); err != nil {
						t.Error(err)
					}
				}
				for range warm {
					op()
				}
				if rank > 0 {
					for range runs + 1 {
						op()
					}
					return
				}
				// All ranks live in this process: their allocations count as well.
				if got := testing.AllocsPerRun(runs, op); got != 0 {
					t.Errorf("%d ranks, %d elements: %v allocations an operation", n, length, got)
				}
			})
		}
	}
}
