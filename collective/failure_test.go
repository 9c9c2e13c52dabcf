package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// operation is one that the failure tests run: on every rank of a group of n, with a result to check.
type tried struct {
	name string
	run  func(ctx context.Context, c *Comm, root int) error
}

// wrong is what a rank returns whose operation succeeded with a wrong result.
func wrong(format string, args ...any) error { return fmt.Errorf("wrong result: "+format, args...) }

// eachOperation is every operation, the sizes on both sides of a change of algorithm.
func eachOperation() []tried {
	var list []tried
	add := func(name string, run func(ctx context.Context, c *Comm, root int) error) {
		list = append(list, tried{name, run})
	}
	add("barrier", func(ctx context.Context, c *Comm, _ int) error { return c.Barrier(ctx) })
	for _, size := range []int{10, 3000} {
		add(fmt.Sprintf("broadcast of %d", size), func(ctx context.Context, c *Comm, root int) error {
			got, err := BroadcastBytes(ctx, c, root, content(c.Rank(), size))
			if err == nil && len(got) != size*(root+1) {
				return wrong("%d bytes", len(got))
			}
			return err
		})
		add(fmt.Sprintf("broadcast into %d", size), func(ctx context.Context, c *Comm, root int) error {
			data := contribution(c.Rank(), size)
			err := BroadcastInto(ctx, c, root, data)
			if err == nil && data[size-1] != at(root, size-1) {
				return wrong("%d", data[size-1])
			}
			return err
		})
		add(fmt.Sprintf("gather of %d", size), func(ctx context.Context, c *Comm, root int) error {
			parts, err := GatherBytes(ctx, c, root, content(c.Rank(), size))
			if err == nil && c.Rank() == root && len(parts[c.Size()-1]) != size*c.Size() {
				return wrong("%d parts", len(parts))
			}
			return err
		})
		add(fmt.Sprintf("gather into %d", size), func(ctx context.Context, c *Comm, root int) error {
			var all []int32
			if c.Rank() == root {
				all = make([]int32, size*c.Size())
			}
			err := GatherInto(ctx, c, root, all, contribution(c.Rank(), size))
			if err == nil && c.Rank() == root && all[len(all)-1] != at(c.Size()-1, size-1) {
				return wrong("%d", all[len(all)-1])
			}
			return err
		})
		add(fmt.Sprintf("scatter of %d", size), func(ctx context.Context, c *Comm, root int) error {
			var parts [][]byte
			for i := range c.Size() {
				parts = append(parts, content(i, size))
			}
			got, err := ScatterBytes(ctx, c, root, parts)
			if err == nil && len(got) != size*(c.Rank()+1) {
				return wrong("%d bytes", len(got))
			}
			return err
		})
		add(fmt.Sprintf("allgather of %d", size), func(ctx context.Context, c *Comm, _ int) error {
			parts, err := AllGatherBytes(ctx, c, content(c.Rank(), size))
			if err == nil && len(parts[c.Size()-1]) != size*c.Size() {
				return wrong("%d parts", len(parts))
			}
			return err
		})
		add(fmt.Sprintf("allreduce of %d", size), func(ctx context.Context, c *Comm, _ int) error {
			sum, err := AllReduce(ctx, c, contribution(c.Rank(), size), Max)
			if err == nil && sum[size-1] != at(c.Size()-1, size-1) {
				return wrong("%d", sum[size-1])
			}
			return err
		})
	}
	add("reduce", func(ctx context.Context, c *Comm, root int) error {
		_, err := Reduce(ctx, c, root, contribution(c.Rank(), 100), Sum)
		return err
	})
	add("reduce-scatter", func(ctx context.Context, c *Comm, _ int) error {
		_, err := ReduceScatter(ctx, c, together(c.Size(), 100), Sum)
		return err
	})
	add("all-to-all", func(ctx context.Context, c *Comm, _ int) error {
		parts := make([][]byte, c.Size())
		for i := range parts {
			parts[i] = content(i, 10)
		}
		got, err := AllToAllBytes(ctx, c, parts)
		if err == nil && len(got[0]) != 10*(c.Rank()+1) {
			return wrong("%d bytes", len(got[0]))
		}
		return err
	})
	add("split", func(ctx context.Context, c *Comm, _ int) error {
		half, err := c.Split(ctx, c.Rank()%2, 0)
		if err == nil && half.Size() != (c.Size()+1-c.Rank()%2)/2 {
			return wrong("%d ranks", half.Size())
		}
		return err
	})
	add("dup", func(ctx context.Context, c *Comm, _ int) error { _, err := c.Dup(ctx); return err })
	add("send around", func(ctx context.Context, c *Comm, _ int) error {
		n, me := c.Size(), c.Rank()
		if n == 1 {
			return nil
		}
		if err := Send(ctx, c, (me+1)%n, content(me, 10)); err != nil {
			return err
		}
		_, err := Recv(ctx, c, (me-1+n)%n)
		return err
	})
	add("call", func(ctx context.Context, c *Comm, root int) error {
		var got int
		err := c.Call(ctx, root, "rank", nil, &got)
		if err == nil && got != root {
			return wrong("%d", got)
		}
		return err
	})
	add("call all", func(ctx context.Context, c *Comm, _ int) error {
		for _, r := range c.CallAll(ctx, "rank", nil) {
			if r.Err != nil {
				return r.Err
			}
		}
		return nil
	})
	return list
}

// What may go wrong with one rank.
var troubles = []string{"late", "killed before", "killed during", "killed after", "silent"}

const (
	lateness = 3 * time.Second
	atOnce   = 2 * time.Second // from a loss that a closed connection shows to the error on every rank
	silence  = 8 * time.Second // from silence: the liveness limit of 5 s, a tick, and the flood
)

// scenario is one run, drawn from a seed.
type scenario struct {
	seed    uint64
	op      tried
	n       int
	victim  int
	root    int
	trouble string
	during  time.Duration // from the start of the operation to the kill
}

func draw(seed uint64) scenario {
	r := rand.New(rand.NewPCG(seed, 1))
	ops := eachOperation()
	s := scenario{seed: seed, op: ops[r.IntN(len(ops))], n: 1 + r.IntN(17), trouble: troubles[r.IntN(len(troubles))]}
	s.victim, s.root = r.IntN(s.n), r.IntN(s.n)
	s.during = time.Duration(r.Int64N(int64(20 * time.Millisecond)))
	return s
}

func (s scenario) String() string {
	return fmt.Sprintf("seed %d: %s, %d ranks, root %d, rank %d %s", s.seed, s.op.name, s.n, s.root, s.victim, s.trouble)
}

// Each rank in turn late or lost, in every operation and world: nobody hangs, nobody gets a wrong result, and every other rank knows
// who is missing within the documented time, on the virtual clock of a simulated network. FPM_SEEDS runs more.
func TestFailures(t *testing.T) {
	seeds := 400
	if text := os.Getenv("FPM_SEEDS"); text != "" {
		var err error
		if seeds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("FPM_SEEDS=%q: %v", text, err)
		}
	}
	for seed := range uint64(seeds) {
		s := draw(seed)
		synctest.Test(t, func(t *testing.T) { s.run(t) })
		if t.Failed() {
			t.Fatal(s)
		}
	}
}

func (s scenario) run(t *testing.T) {
	memory := NewMemory(time.Millisecond, 0)
	memory.Jitter(s.seed, 5*time.Millisecond)
	comms := joinAll(t, s.n, false, func(cfg *Config) {
		cfg.Network, cfg.Spin, cfg.Timeout, cfg.CPUs = memory.Host(fmt.Sprintf("host%d", cfg.Rank)), -1, time.Minute, s.n
		cfg.Thresholds = Thresholds{Direct: 1000, Bruck: 1000, Chain: 1000, Chunk: 1000, Doubling: 1000}
		cfg.Handlers = map[string]Handler{"rank": func(context.Context, *Request) (any, error) { return cfg.Rank, nil }}
	})
	ctx, victim := t.Context(), fmt.Sprintf("host%d", s.victim)
	var wg sync.WaitGroup
	begin := time.Now()
	limit := atOnce
	switch s.trouble {
	case "late":
		limit += lateness
	case "silent":
		limit = silence
		memory.Cut(victim)
	case "killed before":
		memory.Kill(victim)
	case "killed during":
		wg.Go(func() { time.Sleep(s.during); memory.Kill(victim) })
	}
	var done sync.WaitGroup // of the operation, before the kill after it
	done.Add(s.n)
	for rank, c := range comms {
		wg.Go(func() {
			if s.trouble == "late" && rank == s.victim {
				time.Sleep(lateness)
			}
			err := s.op.run(ctx, c, s.root)
			done.Done()
			if rank == s.victim && s.trouble != "late" {
				if s.trouble == "killed after" {
					done.Wait()
					memory.Kill(victim)
				}
				return
			}
			if took := time.Since(begin); took > limit {
				t.Errorf("rank %d: %v after %v, limit %v", rank, err, took, limit)
			}
			if s.trouble == "late" || s.trouble == "killed after" || s.n == 1 {
				if err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
				if s.trouble == "late" || s.n == 1 {
					return
				}
			} else if err != nil {
				s.check(t, rank, err)
			}
			// One-way operations may be over before the loss is known; the next barrier is not.
			again := time.Now()
			err = c.Barrier(ctx)
			if err == nil && s.trouble != "killed during" {
				t.Errorf("rank %d passed a barrier without rank %d", rank, s.victim)
			}
			if err != nil {
				s.check(t, rank, err)
			}
			if took := time.Since(again); took > max(limit, silence) {
				t.Errorf("rank %d: barrier: %v after %v", rank, err, took)
			}
		})
	}
	wg.Wait()
	each(comms, func(_ int, c *Comm) {
		if err := c.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// check is what the error of a rank must say: the victim is lost, or another rank gave up because of it.
func (s scenario) check(t *testing.T, rank int, err error) {
	if !lostOrAborted(err) {
		t.Errorf("rank %d: %v", rank, err)
		return
	}
	if !names(err, s.victim) {
		t.Errorf("rank %d is not told of rank %d: %v", rank, s.victim, err)
	}
}
