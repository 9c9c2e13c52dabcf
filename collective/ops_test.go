package collective

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// worldSizes are small, even, odd, and beyond a power of two.
var worldSizes = []int{1, 2, 3, 5, 8}

// joinAll joins a world of n ranks in this process: in memory, or over TCP on the loopback interface.
func joinAll(t *testing.T, n int, tcp bool, change func(*Config)) []*Comm {
	t.Helper()
	memory, rendezvous := NewMemory(0, 0), "host0:1"
	if tcp {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		rendezvous = l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	comms, errs := make([]*Comm, n), make([]error, n)
	var wg sync.WaitGroup
	for rank := range n {
		cfg := Config{Rank: rank, Size: n, Rendezvous: rendezvous, Token: Secret("0123456789abcdef"), RunID: t.Name()[:min(64, len(t.Name()))],
			JoinTimeout: 20 * time.Second, Timeout: 20 * time.Second}
		if !tcp {
			cfg.Network = memory.Host(fmt.Sprintf("host%d", rank))
		}
		if change != nil {
			change(&cfg)
		}
		wg.Go(func() { comms[rank], errs[rank] = Join(t.Context(), cfg) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { each(comms, func(_ int, c *Comm) { c.Close() }) })
	return comms
}

// each runs a function for every rank at once.
func each(comms []*Comm, f func(rank int, c *Comm)) {
	var wg sync.WaitGroup
	for rank, c := range comms {
		wg.Go(func() { f(rank, c) })
	}
	wg.Wait()
}

// everywhere runs a test in worlds of all sizes over both networks.
func everywhere(t *testing.T, f func(t *testing.T, comms []*Comm)) {
	for _, n := range worldSizes {
		for _, tcp := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d ranks, tcp %v", n, tcp), func(t *testing.T) { f(t, joinAll(t, n, tcp, nil)) })
		}
	}
}

// content is a rank's bytes, of a size of its own.
func content(rank, size int) []byte { return bytes.Repeat([]byte{byte(rank + 1)}, size*(rank+1)) }

func TestByteOperations(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		for _, size := range []int{0, 1, 100, 3_000, 40_000, 300_000} {
			for root := range comms {
				each(comms, func(rank int, c *Comm) {
					got, err := BroadcastBytes(t.Context(), c, root, content(rank, size))
					if err != nil || !bytes.Equal(got, content(root, size)) {
						t.Errorf("broadcast from %d on %d: %d bytes (%v)", root, rank, len(got), err)
					}
					parts, err := GatherBytes(t.Context(), c, root, content(rank, size))
					if err != nil || (rank == root) != (parts != nil) {
						t.Errorf("gather to %d on %d: %d parts (%v)", root, rank, len(parts), err)
					}
					for i, p := range parts {
						if !bytes.Equal(p, content(i, size)) {
							t.Errorf("gather to %d: part %d has %d bytes", root, i, len(p))
						}
					}
				})
			}
			each(comms, func(rank int, c *Comm) {
				parts, err := AllGatherBytes(t.Context(), c, content(rank, size))
				if err != nil || len(parts) != len(comms) {
					t.Errorf("allgather on %d: %d parts (%v)", rank, len(parts), err)
				}
				for i, p := range parts {
					if !bytes.Equal(p, content(i, size)) {
						t.Errorf("allgather on %d: part %d has %d bytes", rank, i, len(p))
					}
				}
			})
		}
	})
}

func TestTypedOperations(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		n := len(comms)
		// Lengths on both sides of the change of algorithm, also shorter than the world and not divisible by it.
		for _, length := range []int{0, 1, 7, 1000, 32<<10/8 + 13, 100_003} {
			results := make([][]float64, n)
			each(comms, func(rank int, c *Comm) {
				data := make([]float64, length)
				for i := range data {
					data[i] = float64(rank+1) * (1 + float64(i)/3)
				}
				sum, err := AllReduce(t.Context(), c, data, Sum)
				if err != nil {
					t.Error(err)
					return
				}
				results[rank] = sum
				most, err := AllReduce(t.Context(), c, []int32{int32(rank), -int32(rank)}, Max)
				if err != nil || most[0] != int32(n-1) || most[1] != 0 {
					t.Errorf("maximum %v (%v)", most, err)
				}
				all := make([]uint16, 3*n)
				if err := AllGatherInto(t.Context(), c, all, []uint16{uint16(rank), 7, uint16(rank)}); err != nil || all[3*(n-1)] != uint16(n-1) || all[1] != 7 {
					t.Errorf("allgather %v (%v)", all, err)
				}
			})
			for rank := range comms {
				for i, v := range results[rank] {
					want := float64(n*(n+1)/2) * (1 + float64(i)/3)
					if math.Abs(v-want) > 1e-9*want {
						t.Fatalf("length %d, rank %d: sum[%d] = %v, want %v", length, rank, i, v, want)
					}
					if math.Float64bits(v) != math.Float64bits(results[0][i]) {
						t.Fatalf("length %d: ranks 0 and %d have different bits", length, rank)
					}
				}
			}
		}
	})
}

func TestScatterAndExchange(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		n := len(comms)
		for _, size := range []int{0, 10, 100_000} {
			for root := range comms {
				list := make([][]byte, n)
				for i := range list {
					list[i] = content(i+root, size)
				}
				each(comms, func(rank int, c *Comm) {
					var mine [][]byte
					if rank == root {
						mine = list
					}
					got, err := ScatterBytes(t.Context(), c, root, mine)
					if err != nil || !bytes.Equal(got, list[rank]) {
						t.Errorf("scatter from %d, rank %d: %d bytes (%v)", root, rank, len(got), err)
					}
				})
			}
			each(comms, func(rank int, c *Comm) {
				parts := make([][]byte, n)
				for i := range parts {
					parts[i] = append([]byte{byte(rank), byte(i)}, content(i, size)...)
				}
				got, err := AllToAllBytes(t.Context(), c, parts)
				if err != nil {
					t.Error(err)
				}
				for from, b := range got {
					if !bytes.Equal(b, append([]byte{byte(from), byte(rank)}, content(rank, size)...)) {
						t.Errorf("all-to-all: %d bytes from %d on %d", len(b), from, rank)
					}
				}
			})
		}
		if n == 1 {
			return
		}
		each(comms, func(rank int, c *Comm) { // a token goes round
			if rank == 0 {
				if err := Send(t.Context(), c, 1, []byte("token")); err != nil {
					t.Error(err)
				}
			}
			b, err := Recv(t.Context(), c, (rank-1+n)%n)
			if err != nil || string(b) != "token" {
				t.Errorf("rank %d got %q (%v)", rank, b, err)
			}
			if rank > 0 {
				if err := Send(t.Context(), c, (rank+1)%n, b); err != nil {
					t.Error(err)
				}
			}
		})
	})
}

func TestReductions(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		n := len(comms)
		for _, part := range []int{0, 1, 1000} {
			for root := range comms {
				each(comms, func(rank int, c *Comm) {
					data := make([]int64, part)
					for i := range data {
						data[i] = int64(rank*1000 + i)
					}
					got, err := Reduce(t.Context(), c, root, data, Max)
					if err != nil || (rank == root) != (got != nil) {
						t.Errorf("reduce to %d on %d: %v (%v)", root, rank, got, err)
					}
					for i, v := range got {
						if v != int64((n-1)*1000+i) {
							t.Errorf("reduce to %d: [%d] = %d", root, i, v)
						}
					}
				})
			}
			each(comms, func(rank int, c *Comm) {
				data := make([]float32, part*n)
				for i := range data {
					data[i] = float32((rank + 1) * (i + 1))
				}
				got, err := ReduceScatter(t.Context(), c, data, Sum)
				if err != nil || len(got) != part {
					t.Errorf("reduce-scatter on %d: %d elements (%v)", rank, len(got), err)
				}
				for i, v := range got {
					if want := float32(n * (n + 1) / 2 * (rank*part + i + 1)); v != want {
						t.Errorf("reduce-scatter on %d: [%d] = %v, want %v", rank, i, v, want)
					}
				}
			})
		}
	})
}

func TestValues(t *testing.T) {
	type value struct {
		Rank int
		Name string
	}
	everywhere(t, func(t *testing.T, comms []*Comm) {
		each(comms, func(rank int, c *Comm) {
			all, err := AllGather(t.Context(), c, value{rank, fmt.Sprint("r", rank)})
			if err != nil || len(all) != len(comms) || all[len(comms)-1].Name != fmt.Sprint("r", len(comms)-1) {
				t.Errorf("allgather %v (%v)", all, err)
			}
			last := len(comms) - 1
			got, err := Broadcast(t.Context(), c, last, value{rank, "x"})
			if err != nil || got.Rank != last {
				t.Errorf("broadcast %v (%v)", got, err)
			}
			list, err := Gather(t.Context(), c, 0, rank*rank)
			if err != nil || rank == 0 && list[last] != last*last || rank > 0 && list != nil {
				t.Errorf("gather %v (%v)", list, err)
			}
		})
	})
}

func TestSplit(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		n := len(comms)
		each(comms, func(rank int, c *Comm) {
			// Odd and even ranks, in reverse order.
			group, err := c.Split(t.Context(), rank%2, -rank)
			if err != nil {
				t.Error(err)
				return
			}
			members, err := AllGather(t.Context(), group, rank)
			if err != nil || !slices.IsSortedFunc(members, func(a, b int) int { return b - a }) || len(members) != (n+1-rank%2)/2 {
				t.Errorf("rank %d: members %v (%v)", rank, members, err)
			}
			if group.WorldRank(group.Rank()) != rank {
				t.Errorf("rank %d is %d in its group", rank, group.Rank())
			}
			twin, err := group.Dup(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			// Two channels between the same ranks do not disturb each other.
			var wg sync.WaitGroup
			for _, g := range []*Comm{group, twin, c} {
				wg.Go(func() {
					for range 20 {
						if _, err := AllReduce(t.Context(), g, []int64{1}, Sum); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if none, err := c.Split(t.Context(), -1, 0); none != nil || err != nil {
				t.Errorf("a negative color gives %v (%v)", none, err)
			}
		})
	})
}

func TestArgumentsAreChecked(t *testing.T) {
	c := joinAll(t, 1, false, nil)[0]
	for name, err := range map[string]error{
		"root outside":      func() error { _, err := BroadcastBytes(t.Context(), c, 1, nil); return err }(),
		"different lengths": AllReduceInto(t.Context(), c, make([]int32, 2), make([]int32, 3), Sum),
		"unknown reduction": AllReduceInto(t.Context(), c, make([]int32, 2), make([]int32, 2), 99),
		"too few parts":     func() error { _, err := ScatterBytes(t.Context(), c, 0, nil); return err }(),
		"no list for each":  func() error { _, err := AllToAllBytes(t.Context(), c, nil); return err }(),
		"to itself":         Send(t.Context(), c, 0, nil),
		"short destination": AllGatherInto(t.Context(), c, make([]int32, 2), make([]int32, 3)),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Barrier(t.Context()); err != nil {
		t.Errorf("a refused argument broke the group: %v", err)
	}
}
