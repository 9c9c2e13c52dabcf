package cpu

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRefusedConfigurations(t *testing.T) {
	tiny := geometry(t, "tiny", "")
	for _, c := range []struct {
		name string
		edit func(*gpu.Config)
		want string
	}{
		{"no geometry", func(c *gpu.Config) { c.Geometry = nil }, "geometry"},
		{"graphs", func(c *gpu.Config) { c.Graph.Mode = "FULL" }, "--cudagraph-mode"},
		{"graphs for decode only", func(c *gpu.Config) { c.Graph.Mode = "FULL_DECODE_ONLY" }, "FULL_DECODE_ONLY"},
		{"unknown graph mode", func(c *gpu.Config) { c.Graph.Mode = "MOST" }, "MOST"},
		{"no blocks", func(c *gpu.Config) { c.Blocks = 1 }, "--kv-blocks"},
		{"no length", func(c *gpu.Config) { c.MaxModelLen = 0 }, "--max-model-len"},
		{"negative threads", func(c *gpu.Config) { c.Threads = -1 }, "threads"},
		{"heads and tp", func(c *gpu.Config) { c.TP = newGroups(3)[1] }, "4 heads do not divide by tp 3"},
	} {
		cfg := config(tiny)
		c.edit(&cfg)
		_, err := New(cfg)
		if !errors.Is(err, gpu.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want gpu.ErrConfig naming %s", c.name, err, c.want)
		}
	}
}

func TestRefusedSteps(t *testing.T) {
	w := start(t, config(geometry(t, "tiny", "")), 1)
	blocks := []int32{1, 2}
	many := make([]uint32, 97)
	for _, c := range []struct {
		name string
		rows []gpu.Row
		want string
	}{
		{"no rows", nil, "0 rows"},
		{"too many rows", make([]gpu.Row, 5), "--max-num-seqs"},
		{"slot", []gpu.Row{{Slot: 4, Tokens: []uint32{1}, Blocks: blocks}}, "slot 4"},
		{"nothing sampled yet", []gpu.Row{{Slot: 1, Computed: 1, Blocks: blocks}}, "slot 1"},
		{"no tokens", []gpu.Row{{Tokens: []uint32{}, Blocks: blocks}}, "no tokens"},
		{"token id", []gpu.Row{{Tokens: []uint32{4096}, Blocks: blocks}}, "4096"},
		{"too many tokens", []gpu.Row{{Tokens: many, Blocks: blocks}}, "--max-num-batched-tokens"},
		{"too long", []gpu.Row{{Tokens: []uint32{1}, Computed: 128, Blocks: blocks}}, "--max-model-len"},
		{"negative", []gpu.Row{{Tokens: []uint32{1}, Computed: -1, Blocks: blocks}}, "-1"},
		{"short table", []gpu.Row{{Tokens: []uint32{1}, Computed: 32, Blocks: blocks}}, "do not cover 33"},
		{"null block", []gpu.Row{{Tokens: []uint32{1}, Blocks: []int32{0}}}, "block 0"},
		{"block outside", []gpu.Row{{Tokens: []uint32{1}, Blocks: []int32{32}}}, "block 32"},
	} {
		if err := w.engines[0].Enqueue(&gpu.Step{Rows: c.rows}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error naming %s", c.name, err, c.want)
		}
	}
	if got := w.step(gpu.Row{Tokens: []uint32{1}, Blocks: blocks}); len(got) != 1 {
		t.Errorf("after refused steps: %d ids, want 1", len(got))
	}
}

func TestOneStepInFlight(t *testing.T) {
	e := start(t, config(geometry(t, "tiny", "")), 1).engines[0]
	step := &gpu.Step{Rows: []gpu.Row{{Tokens: []uint32{1, 2, 3}, Blocks: []int32{1}}}}
	var out gpu.Output
	if err := e.Await(t.Context(), &out); !errors.Is(err, errIdle) {
		t.Errorf("Await without a step: %v", err)
	}
	before := gpu.Monotonic()
	if err := e.Enqueue(step); err != nil {
		t.Fatal(err)
	}
	if err := e.Enqueue(step); !errors.Is(err, errInFlight) {
		t.Errorf("second Enqueue: %v, want %v", err, errInFlight)
	}
	if _, err := e.Finite(); !errors.Is(err, errInFlight) {
		t.Errorf("Finite with a step in flight: %v", err)
	}
	if err := e.Await(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if out.Arrival < before || out.Arrival > gpu.Monotonic() {
		t.Errorf("arrival %d is outside the step", out.Arrival)
	}
	if want := (gpu.Dispatch{Mode: gpu.GraphNone, Unpadded: 3, Padded: 3}); out.Dispatch != want {
		t.Errorf("dispatch %+v, want %+v", out.Dispatch, want)
	}
}

// A worker whose partner never comes is given up when the context ends, and says so from then on.
func TestAwaitEndsWithItsContext(t *testing.T) {
	cfg := config(geometry(t, "tiny", ""))
	groups := newGroups(2)
	cfg.TP = groups[0]
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	step := &gpu.Step{Rows: []gpu.Row{{Tokens: []uint32{1}, Blocks: []int32{1}}}}
	if err := e.Enqueue(step); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	var out gpu.Output
	if err := e.Await(ctx, &out); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Await: %v, want the context's error", err)
	}
	if err := e.Enqueue(step); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Enqueue afterwards: %v, want the first error", err)
	}
	groups[0].hub.fail()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// A broken group ends the step with its error and this worker's rank.
func TestGroupFailureEndsTheEngine(t *testing.T) {
	cfg := config(geometry(t, "tiny", ""))
	groups := newGroups(2)
	groups[1].hub.fail()
	cfg.TP = groups[1]
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Enqueue(&gpu.Step{Rows: []gpu.Row{{Tokens: []uint32{1}, Blocks: []int32{1}}}}); err != nil {
		t.Fatal(err)
	}
	var out gpu.Output
	if err := e.Await(t.Context(), &out); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "rank 1 of 2") {
		t.Errorf("Await: %v, want %v naming rank 1 of 2", err, errBroken)
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) { testStepAllocatesNothing(t, config(geometry(t, f.name, f.overrides))) })
	}
}

func testStepAllocatesNothing(t *testing.T, cfg gpu.Config) {
	e := start(t, cfg, 1).engines[0]
	blocks := []int32{1, 2, 3, 4}
	steps := []*gpu.Step{
		{Rows: []gpu.Row{{Tokens: prompt(cfg.Geometry, 1, 40), Blocks: blocks}}},
		{Rows: []gpu.Row{{Computed: 40, Blocks: blocks}}},
	}
	var out gpu.Output
	allocs := testing.AllocsPerRun(20, func() {
		for _, s := range steps {
			if err := e.Enqueue(s); err != nil {
				t.Fatal(err)
			}
			if err := e.Await(context.Background(), &out); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs != 0 {
		t.Errorf("a prefill and a decode step make %v allocations, want 0", allocs)
	}
}

func TestNonFiniteLogitsAreSeen(t *testing.T) {
	g := geometry(t, "tiny", "")
	cfg := config(g)
	cfg.Weights = poisoned{cfg.Weights}
	w := start(t, cfg, 1)
	w.step(gpu.Row{Tokens: []uint32{1}, Blocks: []int32{1}})
	if ok, err := w.engines[0].Finite(); ok || err != nil {
		t.Errorf("Finite = %v, %v with an infinite norm weight, want false", ok, err)
	}
}

// poisoned has one infinite weight in the last norm.
type poisoned struct{ model.Source }

func (s poisoned) Fill(name string, r model.Rect, dst []float32) error {
	err := s.Source.Fill(name, r, dst)
	if name == model.NormName {
		dst[0] = float32(math.Inf(1))
	}
	return err
}

// Equal logits: the lowest id wins, also when it lies in another worker's part of the vocabulary.
func TestLowestIDWinsTies(t *testing.T) {
	g := geometry(t, "tiny", "")
	for _, tp := range []int{1, 2, 4} {
		cfg := config(g)
		cfg.Weights = without{cfg.Weights, model.HeadName}
		w := start(t, cfg, tp)
		if got := w.step(gpu.Row{Tokens: []uint32{7}, Blocks: []int32{1}}); got[0] != 0 {
			t.Errorf("tp %d: id %d of equal logits, want 0", tp, got[0])
		}
	}
}

// A slot's last sampled id is what a row without tokens computes.
func TestRowWithoutTokens(t *testing.T) {
	g := geometry(t, "qwen3-0.6b", qwen3Cut)
	w := start(t, config(g), 1)
	tokens := prompt(g, 1, 10)
	a, b := w.open(nil, 11), w.open(nil, 11)
	id := w.step(gpu.Row{Slot: 2, Tokens: tokens, Blocks: a.Blocks()})[0]
	w.step(gpu.Row{Slot: 2, Computed: 10, Blocks: a.Blocks()})
	implicit := append([]float32(nil), w.logits(0)...)
	w.step(gpu.Row{Slot: 0, Tokens: tokens, Blocks: b.Blocks()})
	w.step(gpu.Row{Slot: 0, Tokens: []uint32{id}, Computed: 10, Blocks: b.Blocks()})
	if !bitsEqual(implicit, w.logits(0)) {
		t.Error("a row without tokens does not compute the id sampled before")
	}
}

func TestInfo(t *testing.T) {
	g := geometry(t, "tiny", "")
	info := start(t, config(g), 1).engines[0].Info()
	if info.Engine != "cpu" || info.DType != "float32" || info.Async || info.Depth != 1 {
		t.Errorf("info %+v", info)
	}
	if info.WeightBytes != 4*g.Parameters() {
		t.Errorf("%d bytes of weights, want %d", info.WeightBytes, 4*g.Parameters())
	}
	if got := info.LayerBackends["model.layers.1.self_attn.attn"]; got != info.AttentionBackend || len(info.LayerBackends) != 2 {
		t.Errorf("layer backends %v", info.LayerBackends)
	}
}
