package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// disagreements are what two sides may call at the same time: most ranks the first, one rank the second. words are what the error
// must say of both.
var disagreements = []struct {
	name        string
	most, other step
	words       [2]string
}{
	{"operation", barrierStep, allReduceOf[int32](1, Sum), [2]string{"barrier #1", "allreduce #1 (sum of 1 int32)"}},
	{"root", broadcastFrom(0), broadcastFrom(1), [2]string{"root 0", "root 1"}},
	{"type", allReduceOf[int32](2, Sum), allReduceOf[float32](2, Sum), [2]string{"2 int32", "2 float32"}},
	{"length", allReduceOf[int32](2, Sum), allReduceOf[int32](3, Sum), [2]string{"2 int32", "3 int32"}},
	{"reduction", allReduceOf[int32](2, Sum), allReduceOf[int32](2, Max), [2]string{"sum of", "maximum of"}},
	{"order", inTurn(barrierStep, gatherTo0), inTurn(gatherTo0, barrierStep), [2]string{"barrier #1", "gather #1"}},
	{"one-way operation", gatherTo0, broadcastFrom(0), [2]string{"gather #1", "broadcast #1"}},
}

type step func(ctx context.Context, c *Comm) error

func allReduceOf[T Number](length int, op Op) step {
	return func(ctx context.Context, c *Comm) error {
		_, err := AllReduce(ctx, c, make([]T, length), op)
		return err
	}
}

func broadcastFrom(root int) step {
	return func(ctx context.Context, c *Comm) error { return BroadcastInto(ctx, c, root, make([]int64, 10)) }
}

func gatherTo0(ctx context.Context, c *Comm) error {
	return GatherInto(ctx, c, 0, make([]int64, 10*c.Size()), make([]int64, 10))
}

func barrierStep(ctx context.Context, c *Comm) error { return c.Barrier(ctx) }

func inTurn(steps ...step) step {
	return func(ctx context.Context, c *Comm) error {
		for _, s := range steps {
			if err := s(ctx, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// With Config.Check every rank is told in that very call. Without it a rank whose part of a one-way operation was over is told by its
// next operation, and nobody waits for the time limit.
func TestMismatches(t *testing.T) {
	for _, d := range disagreements {
		for _, check := range []bool{true, false} {
			for _, n := range worldSizes[1:] {
				for odd := range n {
					t.Run(fmt.Sprintf("%s, check %v, rank %d of %d", d.name, check, odd, n), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { mismatch1(t, d.most, d.other, d.words, check, n, odd) })
					})
				}
			}
		}
	}
}

func mismatch1(t *testing.T, most, other step, words [2]string, check bool, n, odd int) {
	memory := NewMemory(time.Millisecond, 0)
	comms := joinAll(t, n, false, func(cfg *Config) {
		cfg.Network, cfg.Spin, cfg.Check, cfg.CPUs = memory.Host(fmt.Sprintf("host%d", cfg.Rank)), -1, check, n
	})
	begin := time.Now()
	var mu sync.Mutex
	both, said := false, []string{} // some rank was told both sides
	each(comms, func(rank int, c *Comm) {
		run := most
		if rank == odd {
			run = other
		}
		err := run(t.Context(), c)
		if err == nil {
			if check {
				t.Errorf("rank %d was not told in that call", rank)
			}
			err = c.Barrier(t.Context())
		}
		if !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrAborted) {
			t.Errorf("rank %d: %v", rank, err)
			return
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("rank %d was told after %v", rank, took)
		}
		mu.Lock()
		defer mu.Unlock()
		text := err.Error()
		said = append(said, text)
		if !check && strings.Contains(text, " called ") { // of a one-way operation, perhaps those that came after it
			both = true
		}
		both = both || strings.Contains(text, words[0]) && strings.Contains(text, words[1])
		if !errors.Is(err, ErrMismatch) {
			t.Errorf("rank %d: %v", rank, err)
		}
	})
	if !both {
		t.Errorf("no rank was told both sides: %v", said)
	}
	each(comms, func(_ int, c *Comm) { _ = c.Close() }) // the group is broken: what Close says does not matter
}
