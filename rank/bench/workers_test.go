package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// part is what one rank of a run did.
type part struct {
	engine *fake
	doc    *artifact.Rank
	err    error
}

// runEngines runs dp engines of tp workers each on the world, as the program does, and returns what every rank did. change may alter a rank's
// settings and engine.
func runEngines(t *testing.T, comms []*collective.Comm, tp int, change func(rank int, c *Config, f *fake)) []part {
	t.Helper()
	sizes := artifact.Sizes{TP: tp, PCP: 1, PP: 1}
	parts := make([]part, len(comms))
	var wg sync.WaitGroup
	for rank, comm := range comms {
		c, f := settings(t), &fake{}
		if change != nil {
			change(rank, &c, f)
		}
		parts[rank].engine = f
		wg.Go(func() {
			g := &Groups{World: comm}
			err := func() (err error) {
				if g, err = NewGroups(t.Context(), comm, sizes, StepLimit); err != nil {
					return err
				}
				if c.ExpertParallel {
					f.share = NewExpertGroup(g.Experts)
				}
				if !g.IsLeader() {
					return g.Follow(t.Context(), f)
				}
				engine := Lead(f, g.Workers)
				s, err := New(c, engine, g.Leaders)
				if err != nil {
					return err
				}
				f.session = s
				if parts[rank].doc, _, err = s.Run(t.Context(), "00112233445566778899aabbccddeeff"); err != nil {
					return err
				}
				if err := engine.Close(); err != nil {
					return err
				}
				return comm.Barrier(t.Context())
			}()
			if err != nil {
				parts[rank].err = g.GiveUp(err)
				comm.Close()
			}
		})
	}
	wg.Wait()
	return parts
}

// Every worker runs the steps of its leader, whatever the number of steps in flight.
func TestWorkersExecuteTheLeadersSteps(t *testing.T) {
	for _, c := range []struct{ dp, tp, depth int }{{1, 2, 1}, {1, 4, 2}, {1, 8, 1}, {2, 4, 1}, {4, 2, 2}} {
		t.Run(fmt.Sprintf("dp%d tp%d depth%d", c.dp, c.tp, c.depth), func(t *testing.T) {
			parts := runEngines(t, world(t, c.dp*c.tp), c.tp, func(_ int, _ *Config, f *fake) { f.depth = c.depth })
			for rank, p := range parts {
				if p.err != nil {
					t.Fatalf("rank %d: %v", rank, p.err)
				}
				leader := parts[rank/c.tp*c.tp].engine
				if len(p.engine.steps) < 20 || !reflect.DeepEqual(p.engine.steps, leader.steps) {
					t.Errorf("rank %d: %d steps are not the %d of its leader", rank, len(p.engine.steps), len(leader.steps))
				}
				if len(p.engine.flight) > 0 || !p.engine.closed {
					t.Errorf("rank %d: %d steps in flight at the end, closed %v", rank, len(p.engine.flight), p.engine.closed)
				}
			}
		})
	}
}

// A worker whose logits are not finite fails the point on the leader.
func TestWorkerWithoutFiniteLogits(t *testing.T) {
	parts := runEngines(t, world(t, 4), 4, func(rank int, _ *Config, f *fake) { f.infinite = rank == 2 })
	if err := parts[0].err; err == nil || !strings.Contains(err.Error(), "not all finite") {
		t.Errorf("leader: %v", err)
	}
}

// One worker of two engines of four is lost, fails, hangs in a step or falls silent, in the middle of the run and in each place: every rank ends, with
// that worker's rank in its error. Time is virtual.
func TestTroubleOfOneWorkerIsNamedEverywhere(t *testing.T) {
	const ranks, tp, atStep = 8, 4, 12
	for _, trouble := range []string{"killed", "fails", "hangs", "silent"} {
		for _, victim := range []int{0, 1, 4, 6, 7} {
			t.Run(fmt.Sprintf("rank %d %s", victim, trouble), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					network := collective.NewMemory(time.Millisecond, 0)
					comms := worldOn(t, network, ranks)
					host := fmt.Sprintf("host%d", victim)
					parts := runEngines(t, comms, tp, func(rank int, _ *Config, f *fake) {
						if rank == victim {
							f.before = func(ctx context.Context, step *gpu.Step) error {
								if len(f.steps) < atStep {
									return nil
								}
								switch trouble {
								case "killed":
									network.Kill(host)
									return errors.New("killed")
								case "fails":
									return errors.New("device lost")
								case "silent":
									network.Cut(host)
									return nil
								}
								<-ctx.Done()
								return context.Cause(ctx)
							}
						}
					})
					for rank, p := range parts {
						switch {
						case p.err == nil:
							t.Errorf("rank %d ended without an error", rank)
						case rank == victim && (trouble == "killed" || trouble == "silent"):
							// It only knows that it lost the others.
						case !strings.Contains(p.err.Error(), fmt.Sprintf("rank %d", victim)):
							t.Errorf("rank %d is not told of rank %d: %v", rank, victim, p.err)
						case trouble == "fails" && !strings.Contains(p.err.Error(), "device lost"):
							t.Errorf("rank %d is not told of the reason: %v", rank, p.err)
						}
						if n := len(p.engine.steps); n < atStep-1 {
							t.Errorf("rank %d: trouble after %d steps", rank, n)
						}
					}
				})
			})
		}
	}
}

// idle is an engine whose steps are nothing.
type idle struct{ gpu.Engine }

func (idle) Info() gpu.Info                           { return gpu.Info{Depth: 1} }
func (idle) Enqueue(*gpu.Step) error                  { return nil }
func (idle) Await(context.Context, *gpu.Output) error { return nil }
func (idle) Close() error                             { return nil }

// Over TCP, neither the leader nor a worker allocates for a step, with a body or without.
func TestStepMessagesAllocateNothing(t *testing.T) {
	for _, tp := range []int{2, 4, 8} {
		t.Run(fmt.Sprintf("tp%d", tp), func(t *testing.T) {
			comms := tcpWorld(t, tp)
			ends := make(chan error, tp)
			for _, comm := range comms[1:] {
				go func() { ends <- NewFollower(idle{}, comm, StepLimit).Run(t.Context()) }()
			}
			first := gpu.Step{Rows: []gpu.Row{{Tokens: []uint32{1}, Computed: 31, Blocks: table(1, 40)}, {Slot: 1, Tokens: []uint32{1}, Computed: 31, Blocks: table(41, 40)}}}
			steps := []gpu.Step{first, clone(&first), clone(&first), clone(&first)}
			for k := range steps[1:] {
				for i := range steps[k+1].Rows {
					steps[k+1].Rows[i].Tokens, steps[k+1].Rows[i].Computed = nil, 32+k
				}
			}
			engine := Lead(idle{}, comms[0])
			allocations := testing.AllocsPerRun(200, func() {
				for k := range steps {
					if err := engine.Enqueue(&steps[k]); err != nil {
						t.Error(err)
					}
				}
			})
			if allocations != 0 {
				t.Errorf("%v allocations in %d steps of %d workers", allocations, len(steps), tp)
			}
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
			for range comms[1:] {
				if err := <-ends; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// tcpWorld joins n ranks of this process over the loopback.
func tcpWorld(t testing.TB, n int) []*collective.Comm {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return joinAll(t, n, func(c *collective.Config) { c.Rendezvous, c.Spin = address, -1 }) // whoever counts allocations has one processor for all ranks
}
