package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// uneven are settings under which DP ranks with a small pool have more to prepare than those with a large one: the second point
// pushes the first one's prefix out of a small pool, so that the third point computes it again there.
func uneven(t *testing.T, c *Config, small bool) {
	t.Helper()
	c.ExpertParallel, c.PrefillRealSeed, c.Mode = true, true, artifact.Prefill
	c.Manifest = manifest(t, `{"schema_version":1,"prefill":[
		{"batch_size":1,"total_prefill_tokens":8,"total_kv_read_tokens":112},
		{"batch_size":2,"total_prefill_tokens":8,"total_kv_read_tokens":224},
		{"batch_size":1,"total_prefill_tokens":8,"total_kv_read_tokens":112}],"decode":[]}`)
	if small {
		c.Blocks = 20
	}
}

// empty counts the steps without rows.
func empty(steps []gpu.Step) int {
	n := 0
	for i := range steps {
		if len(steps[i].Rows) == 0 {
			n++
		}
	}
	return n
}

// Engines that share experts step together although their preparations differ: all take as many steps, those with less to do some without
// rows, which nothing in their documents counts.
func TestIdleRanksStepWithTheOthers(t *testing.T) {
	for _, tp := range []int{1, 2} {
		parts := runEngines(t, world(t, 3*tp), tp, func(rank int, c *Config, f *fake) { uneven(t, c, rank/tp == 1) })
		var outcomes []outcome
		for rank, p := range parts {
			if p.err != nil {
				t.Fatalf("tp %d: rank %d: %v", tp, rank, p.err)
			}
			steps, idle := p.engine.steps, empty(p.engine.steps)
			if len(steps) != len(parts[0].engine.steps) {
				t.Errorf("tp %d: rank %d takes %d steps, rank 0 %d", tp, rank, len(steps), len(parts[0].engine.steps))
			}
			if small := rank/tp == 1; small != (idle == 0) {
				t.Errorf("tp %d: rank %d takes %d steps without rows", tp, rank, idle)
			}
			if rank%tp > 0 {
				continue
			}
			outcomes = append(outcomes, outcome{doc: p.doc})
			last := p.doc.Results[len(p.doc.Results)-1].FPMs[0].Measurement.Raw
			if got, want := last[len(last)-1].Sample.ForwardIndex, len(steps)-idle-1; got != want {
				t.Errorf("tp %d: rank %d: last forward_index %d, want %d", tp, rank, got, want)
			}
			for _, r := range p.doc.Ledger.Records {
				// The shot that misses the prefix which was pushed out fails, and runs nothing.
				if missed := r.Status == "failed" && r.Kind == artifact.WarmupRealShape; missed != (r.ObservedForwardCount == 0) || !missed && r.Status != "completed" {
					t.Errorf("tp %d: rank %d: ledger record %+v", tp, rank, r)
				}
			}
		}
		if _, err := artifact.Merge(documents(t, outcomes), "benchmark_merged.json"); err != nil {
			t.Errorf("tp %d: %v", tp, err)
		}
	}
}

// A rank that is killed, fails or hangs in a step that it takes for the others only, its DP rank's leader or another worker, ends the run on all, with its
// rank in every error. Time is virtual.
func TestTroubleInAnIdleStepIsNamedEverywhere(t *testing.T) {
	for _, trouble := range []string{"killed", "fails", "hangs"} {
		for _, c := range []struct{ tp, victim int }{{1, 0}, {1, 2}, {2, 2}, {2, 3}} {
			t.Run(fmt.Sprintf("tp%d rank %d %s", c.tp, c.victim, trouble), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					network := collective.NewMemory(time.Millisecond, 0)
					idle := false
					parts := runEngines(t, worldOn(t, network, 3*c.tp), c.tp, func(rank int, cfg *Config, f *fake) {
						uneven(t, cfg, rank/c.tp != c.victim/c.tp)
						if rank != c.victim {
							return
						}
						f.before = func(ctx context.Context, step *gpu.Step) error {
							if len(step.Rows) > 0 {
								return nil
							}
							idle = true
							switch trouble {
							case "killed":
								network.Kill(fmt.Sprintf("host%d", rank))
								return errors.New("killed")
							case "fails":
								return errors.New("device lost")
							}
							<-ctx.Done()
							return context.Cause(ctx)
						}
					})
					if !idle {
						t.Fatal("the rank took no step without rows")
					}
					for rank, p := range parts {
						if p.err == nil || !strings.Contains(p.err.Error(), fmt.Sprintf("rank %d", c.victim)) && (rank != c.victim || trouble != "killed") {
							t.Errorf("rank %d is not told of rank %d: %v", rank, c.victim, p.err)
						}
					}
				})
			})
		}
	}
}
