package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// kind is what an engine is made ready for: new tokens, rows, and whether all are decode rows.
type kind struct {
	tokens, rows int
	decode       bool
}

// fake is an engine whose steps take no time worth mentioning; it keeps what it ran.
type fake struct {
	mu       sync.Mutex
	steps    []gpu.Step
	prepared []kind
	flight   []*gpu.Step
	depth    int  // steps that it may have in flight; 0 is 1
	infinite bool // its logits are not finite
	fail     error
	wrong    bool // it dispatches something else than planned

	before func(ctx context.Context, step *gpu.Step) error // called by each Await; may be nil
	share  gpu.Exchange                                    // with the engines of the other ranks, in each step; may be nil
	closed bool

	session   *Session
	stopAfter int // steps after which the session is asked to stop; 0 is never
}

func (f *fake) Info() gpu.Info {
	return gpu.Info{Engine: "fake", DType: "float32", KVDType: "float32", Depth: max(1, f.depth), LayerBackends: map[string]string{"layers.0": "fake"}}
}

func (f *fake) Enqueue(step *gpu.Step) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flight = append(f.flight, step)
	f.steps = append(f.steps, clone(step))
	if f.stopAfter > 0 && len(f.steps) >= f.stopAfter && len(f.session.doc.Results) > 0 {
		f.session.Stop()
	}
	return f.fail
}

func (f *fake) Await(ctx context.Context, out *gpu.Output) error {
	if f.before != nil {
		if err := f.before(ctx, f.flight[0]); err != nil {
			return err
		}
	}
	if f.share != nil {
		n := f.share.Size()
		ones, values := slices.Repeat([]int{1}, n), make([]float32, 2*n)
		if err := f.share.AllToAll(values[:n], ones, values[n:], ones); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.flight) == 0 {
		return errors.New("fake: nothing in flight")
	}
	step := f.flight[0]
	f.flight = f.flight[1:]
	out.Arrival = gpu.Monotonic()
	out.Sampled = append(out.Sampled[:0], make([]uint32, len(step.Rows))...)
	out.Dispatch = gpu.Dispatch{Mode: gpu.GraphNone, Unpadded: step.Tokens(), Padded: step.Tokens()}
	if f.wrong {
		out.Dispatch.Mode = gpu.GraphPiecewise
	}
	return nil
}

func (f *fake) Prepare(tokens, rows int, decode bool) error {
	f.prepared = append(f.prepared, kind{tokens, rows, decode})
	return nil
}
func (f *fake) Finite() (bool, error) { return !f.infinite, nil }

func (f *fake) Close() error {
	f.closed = true
	return nil
}

// clone copies a step, whose memory is reused.
func clone(step *gpu.Step) gpu.Step {
	rows := slices.Clone(step.Rows)
	for i := range rows {
		rows[i].Tokens, rows[i].Blocks = slices.Clone(rows[i].Tokens), slices.Clone(rows[i].Blocks)
	}
	return gpu.Step{Rows: rows}
}

// settings are small but exercise both phases.
func settings(t *testing.T) Config {
	t.Helper()
	g, err := model.Load("tiny", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Mode: "agg", WarmupIterations: 5, OutputPath: t.TempDir() + "/benchmark.json", Timeout: time.Minute,
		Samples:     artifact.Samples{PrefillNewTokens: 4, PrefillKVTokens: 4, PrefillBatches: 3, DecodeKVTokens: 4, DecodeBatches: 4},
		ContentSeed: "0", KVWarmup: true, KVSkipReason: "dense_model_content_insensitive", GiantKVThreshold: 1000000, GiantKVRepeats: 3,
		MaxModelLen: 128, MaxBatchedTokens: 64, MaxSeqs: 4, BlockSize: 16, Blocks: 64, PrefixCaching: true,
		Graph: gpu.GraphConfig{Mode: "NONE"}, Vocab: g.Vocab, WorkerID: "w", Logger: slog.New(slog.DiscardHandler),
	}
	c.Engine = Provenance(&c, Setup{Info: (&fake{}).Info(), Geometry: g, Model: "tiny", DPSize: 1, Sizes: artifact.Sizes{TP: 1, PCP: 1, PP: 1}, Version: "test"})
	return c
}

// world joins n ranks in this process.
func world(t *testing.T, n int) []*collective.Comm {
	t.Helper()
	return worldOn(t, collective.NewMemory(0, 0), n)
}

// worldOn joins n ranks, each on a host of its own of the network: host0, host1 and so on.
func worldOn(t *testing.T, network *collective.Memory, n int) []*collective.Comm {
	t.Helper()
	return joinAll(t, n, func(c *collective.Config) {
		c.Rendezvous, c.Network, c.Spin = "host0:1", network.Host(fmt.Sprintf("host%d", c.Rank)), -1 // who polls holds virtual time up
	})
}

// joinAll joins n ranks of this process.
func joinAll(t testing.TB, n int, change func(c *collective.Config)) []*collective.Comm {
	t.Helper()
	comms, errs := make([]*collective.Comm, n), make([]error, n)
	var wg sync.WaitGroup
	for rank := range n {
		c := collective.Config{Rank: rank, Size: n, Token: collective.Secret("0123456789abcdef"), RunID: "test", JoinTimeout: 30 * time.Second, Timeout: 30 * time.Second}
		change(&c)
		wg.Go(func() { comms[rank], errs[rank] = collective.Join(t.Context(), c) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var wg sync.WaitGroup
		for _, c := range comms {
			wg.Go(func() { c.Close() })
		}
		wg.Wait()
	})
	return comms
}

// outcome is how one rank's run ended.
type outcome struct {
	doc     *artifact.Rank
	stopped bool
	err     error
	session *Session
}

// runAll runs one session per rank; change may alter a rank's settings and engine.
func runAll(t *testing.T, n int, change func(rank int, c *Config, f *fake)) ([]outcome, []*fake) {
	t.Helper()
	return runAllWith(t, n, change, nil)
}

// runAllWith lets begin change a rank's session before it runs; nil leaves it.
func runAllWith(t *testing.T, n int, change func(rank int, c *Config, f *fake), begin func(rank int, s *Session)) ([]outcome, []*fake) {
	t.Helper()
	comms := world(t, n)
	outcomes, fakes := make([]outcome, n), make([]*fake, n)
	var wg sync.WaitGroup
	for rank := range n {
		c, f := settings(t), &fake{}
		fakes[rank] = f
		if change != nil {
			change(rank, &c, f)
		}
		s, err := New(c, f, comms[rank])
		if err != nil {
			t.Fatal(err)
		}
		f.session = s
		if begin != nil {
			begin(rank, s)
		}
		wg.Go(func() {
			o := &outcomes[rank]
			o.session = s
			o.doc, o.stopped, o.err = s.Run(t.Context(), "00112233445566778899aabbccddeeff")
			if o.err != nil {
				_ = giveUp(o.err, comms[rank]) // as a rank does that ends with an error
			}
		})
	}
	wg.Wait()
	return outcomes, fakes
}
