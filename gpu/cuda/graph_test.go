//go:build linux && cgo

package cuda

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
)

// graphs is a configuration of a mode with graphs of up to 24 tokens.
func graphs(t *testing.T, mode string) gpu.Config {
	cfg := configuration(geometry(t, models[0].preset, models[0].overrides))
	cfg.Graph = gpu.GraphConfig{Mode: mode, Sizes: []int{1, 4, 8, 24}}
	return cfg
}

// Steps that run in graphs give the reference's logits, and say what they ran in.
func TestGraphs(t *testing.T) {
	l := needGPU(t)
	none := func(n int) gpu.Dispatch { return gpu.Dispatch{Mode: gpu.GraphNone, Unpadded: n, Padded: n} }
	in := func(mode gpu.GraphMode, n, padded int) gpu.Dispatch {
		return gpu.Dispatch{Mode: mode, Unpadded: n, Padded: padded}
	}
	for _, c := range []struct {
		mode string
		want [4]gpu.Dispatch // a prefill of 21 tokens, one of 30 tokens, decode of 1 and of 3 rows
	}{
		{"NONE", [4]gpu.Dispatch{none(21), none(30), none(1), none(3)}},
		{"PIECEWISE", [4]gpu.Dispatch{in(gpu.GraphPiecewise, 21, 24), none(30), in(gpu.GraphPiecewise, 1, 1), in(gpu.GraphPiecewise, 3, 4)}},
		{"FULL", [4]gpu.Dispatch{in(gpu.GraphFull, 21, 24), none(30), in(gpu.GraphFull, 1, 1), in(gpu.GraphFull, 3, 4)}},
		{"FULL_AND_PIECEWISE", [4]gpu.Dispatch{in(gpu.GraphPiecewise, 21, 24), none(30), in(gpu.GraphFull, 1, 1), in(gpu.GraphFull, 3, 4)}},
		{"FULL_DECODE_ONLY", [4]gpu.Dispatch{none(21), none(30), in(gpu.GraphFull, 1, 1), in(gpu.GraphFull, 3, 4)}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			cfg := graphs(t, c.mode)
			p, g := newPair(t, l, cfg), cfg.Geometry
			check := func(i int) {
				t.Helper()
				if p.ran != c.want[i] {
					t.Errorf("ran as %+v, want %+v", p.ran, c.want[i])
				}
			}
			p.step(p.row(0, ids(g, 1, 20)), p.row(1, ids(g, 2, 1)))
			check(0)
			p.step(p.row(0, ids(g, 3, 5)), p.row(1, ids(g, 4, 7)), p.row(2, ids(g, 5, 9))) // other rows in the same graph
			check(0)
			p.step(p.row(2, ids(g, 6, 30)))
			check(1)
			for i := range 2 {
				p.step(p.row(1, ids(g, 7+i, 1)))
				check(2)
				p.step(p.row(2, ids(g, 8+i, 1)), p.row(0, ids(g, 9+i, 1)), p.row(1, ids(g, 10+i, 1)))
				check(3)
			}
			t.Logf("worst row: %.2g", p.worst)
		})
	}
}

// run runs a step alone and returns the logits' bits of its rows.
func run(t *testing.T, e *Engine, step *gpu.Step) (logits [][]uint32, out gpu.Output) {
	t.Helper()
	if err := e.Enqueue(step); err != nil {
		t.Fatal(err)
	}
	if err := e.Await(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for r := range step.Rows {
		row, err := e.Logits(r)
		if err != nil {
			t.Fatal(err)
		}
		logits = append(logits, unsafe.Slice((*uint32)(unsafe.Pointer(&row[0])), len(row)))
	}
	return logits, out
}

// open makes an engine that the test closes.
func openEngine(t *testing.T, cfg gpu.Config) *Engine {
	t.Helper()
	e, err := New(cfg, needGPU(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// pool is the cache's bits, layer by layer.
func pool(t *testing.T, e *Engine) [][]byte {
	t.Helper()
	layers := make([][]byte, len(e.cache))
	for i, at := range e.cache {
		layers[i] = make([]byte, e.poolBytes())
		if err := e.machine.copyOut(unsafe.Pointer(&layers[i][0]), at, e.poolBytes()); err != nil {
			t.Fatal(err)
		}
	}
	return layers
}

// fiveRows is a decode step of five sequences in different places of the pool.
func fiveRows(cfg gpu.Config) *gpu.Step {
	step := &gpu.Step{}
	for i := range 5 {
		step.Rows = append(step.Rows, gpu.Row{Slot: i, Tokens: ids(cfg.Geometry, i, 1), Computed: 20 + 3*i, Blocks: []int32{int32(1 + 3*i), int32(2 + 3*i), int32(3 + 3*i)}})
	}
	return step
}

// A replay is bit for bit what the same commands give when each is launched by itself.
func TestReplay(t *testing.T) {
	needGPU(t)
	for _, mode := range []string{"FULL", "PIECEWISE"} {
		t.Run(mode, func(t *testing.T) {
			cfg := graphs(t, mode)
			e := openEngine(t, cfg)
			for _, step := range []*gpu.Step{fiveRows(cfg), {Rows: []gpu.Row{{Slot: 1, Tokens: ids(cfg.Geometry, 9, 19), Computed: 3, Blocks: []int32{40, 41}}, {Slot: 2, Tokens: ids(cfg.Geometry, 8, 2), Blocks: []int32{42}}}}} {
				replayed, _ := run(t, e, step)
				s := e.shape(step.Tokens(), len(step.Rows), step.Decode())
				b := &builder{m: e.machine, functions: e.functions, gemms: e.gemms}
				e.body(b, s.tokens, s.rows)
				e.tail(b, s.tokens, s.rows)
				p, err := b.build()
				if err != nil {
					t.Fatal(err)
				}
				if p.count < 10 || e.programs[s].count >= p.count {
					t.Fatalf("%d commands in place of %d", e.programs[s].count, p.count)
				}
				p.shape = s
				e.programs[s], p = p, e.programs[s]
				defer p.free()
				launched, _ := run(t, e, step)
				if !slices.EqualFunc(replayed, launched, slices.Equal) {
					t.Errorf("%v: the logits differ", s)
				}
			}
		})
	}
}

// Padding of a graph writes to no place of the pool but those of the step, and the evidence says how much of it there is.
func TestCase21Padding(t *testing.T) {
	needGPU(t)
	cfg := graphs(t, "FULL")
	e := openEngine(t, cfg)
	before := pool(t, e)
	step := fiveRows(cfg)
	_, out := run(t, e, step)
	if want := (gpu.Dispatch{Mode: gpu.GraphFull, Unpadded: 5, Padded: 8}); out.Dispatch != want {
		t.Errorf("ran as %+v, want %+v", out.Dispatch, want)
	}
	g := cfg.Geometry
	slot := 2 * g.HeadDim // bytes of one key or value
	for i, after := range pool(t, e) {
		changed := map[int]bool{}
		for at := 0; at < len(after); at += slot {
			if !bytes.Equal(after[at:at+slot], before[i][at:at+slot]) {
				place := at / slot
				block := place / (2 * g.KVHeads * cfg.BlockSize)
				changed[block*cfg.BlockSize+place%cfg.BlockSize] = true
			}
		}
		for _, r := range step.Rows {
			at := int(r.Blocks[r.Computed/16])*16 + r.Computed%16
			if !changed[at] {
				t.Errorf("layer %d: place %d was not written", i, at)
			}
			delete(changed, at)
		}
		if len(changed) > 0 {
			t.Errorf("layer %d: places %v were written", i, changed)
		}
	}
	for slot, sampled := range e.sampled {
		if sampled != (slot < 5) {
			t.Errorf("slot %d: sampled %v", slot, sampled)
		}
	}
}

// What is past a sequence's end in its last block is never multiplied in: a pool of NaN gives the bits of a pool of zeros.
func TestCase22PoolOfNaN(t *testing.T) {
	needGPU(t)
	for _, mode := range []string{"NONE", "FULL"} {
		cfg := graphs(t, mode)
		var logits [2][][]uint32
		for i, value := range []byte{0, 0xff} {
			e := openEngine(t, cfg)
			for _, at := range e.cache {
				if err := e.machine.fill(at, value, e.poolBytes()); err != nil {
					t.Fatal(err)
				}
			}
			run(t, e, &gpu.Step{Rows: []gpu.Row{{Slot: 0, Tokens: ids(cfg.Geometry, 1, 13), Blocks: []int32{3}}, {Slot: 1, Tokens: ids(cfg.Geometry, 2, 17), Blocks: []int32{4, 5}}}})
			logits[i], _ = run(t, e, &gpu.Step{Rows: []gpu.Row{{Slot: 0, Computed: 13, Blocks: []int32{3}}, {Slot: 1, Computed: 17, Blocks: []int32{4, 5}}}})
		}
		for r, row := range logits[1] {
			for i, v := range row {
				if f := math.Float32frombits(v); v != logits[0][r][i] || math.IsNaN(float64(f)) {
					t.Fatalf("%s, row %d, logit %d: %v, with zeros %v", mode, r, i, f, math.Float32frombits(logits[0][r][i]))
				}
			}
		}
	}
}

// Offsets into a large pool are 64-bit: the last blocks hold what the first ones do.
func TestCase24LargePool(t *testing.T) {
	needGPU(t)
	g := geometry(t, "qwen3-0.6b", `{`+small+`"num_hidden_layers":1,"num_attention_heads":8,"num_key_value_heads":8,"head_dim":128}`)
	cfg := configuration(g)
	cfg.Blocks = 70000
	if devices, err := Devices(); err != nil || devices[0].Memory < 8<<30 {
		t.Skip("the pool takes 4.6 GB of device memory ", err)
	}
	e := openEngine(t, cfg)
	var logits [2][][]uint32
	for i, blocks := range [][]int32{{1, 2, 3}, {69999, 65537, 69998}} {
		run(t, e, &gpu.Step{Rows: []gpu.Row{{Tokens: ids(g, 1, 37), Blocks: blocks}}})
		logits[i], _ = run(t, e, &gpu.Step{Rows: []gpu.Row{{Computed: 37, Blocks: blocks}}})
	}
	if !slices.EqualFunc(logits[0], logits[1], slices.Equal) {
		t.Error("the logits differ")
	}
}

// Decode batches above the largest capture run without a graph.
func TestCase23AboveTheLargestCapture(t *testing.T) {
	needGPU(t)
	cfg := graphs(t, "FULL_AND_PIECEWISE")
	cfg.Graph.Sizes = []int{1, 2, 4}
	e := openEngine(t, cfg)
	step := fiveRows(cfg)
	for n, want := range map[int]gpu.Dispatch{4: {Mode: gpu.GraphFull, Unpadded: 4, Padded: 4}, 5: {Mode: gpu.GraphNone, Unpadded: 5, Padded: 5}} {
		if _, out := run(t, e, &gpu.Step{Rows: step.Rows[:n]}); out.Dispatch != want {
			t.Errorf("%d rows ran as %+v, want %+v", n, out.Dispatch, want)
		}
	}
}

// The evidence is of the object that was launched, whatever should have been.
func TestDispatchIsWhatWasLaunched(t *testing.T) {
	needGPU(t)
	cfg := graphs(t, "FULL")
	e := openEngine(t, cfg)
	for _, rows := range []int{5, 20} {
		if err := e.Prepare(rows, min(rows, cfg.MaxSeqs), rows == 5); err != nil {
			t.Fatal(err)
		}
	}
	wrong := shape{gpu.GraphFull, 24, 8}
	p, err := e.program(wrong)
	if err != nil {
		t.Fatal(err)
	}
	right := e.shape(5, 5, true)
	e.programs[right].free()
	e.programs[right] = p
	delete(e.programs, wrong)
	if _, out := run(t, e, fiveRows(cfg)); out.Dispatch != (gpu.Dispatch{Mode: gpu.GraphFull, Unpadded: 5, Padded: 24}) {
		t.Errorf("ran as %+v", out.Dispatch)
	}
}

// A second step may be launched before the first was awaited, and goes on with what the first samples.
func TestTwoInFlight(t *testing.T) {
	needGPU(t)
	for _, mode := range []string{"NONE", "FULL_AND_PIECEWISE"} {
		t.Run(mode, func(t *testing.T) {
			cfg := graphs(t, mode)
			steps := []*gpu.Step{{Rows: []gpu.Row{{Slot: 0, Tokens: ids(cfg.Geometry, 1, 17), Blocks: []int32{3, 4}}, {Slot: 1, Tokens: ids(cfg.Geometry, 2, 3), Blocks: []int32{5, 6}}}}}
			for k := range 5 {
				steps = append(steps, &gpu.Step{Rows: []gpu.Row{{Slot: 0, Computed: 17 + k, Blocks: []int32{3, 4}}, {Slot: 1, Computed: 3 + k, Blocks: []int32{5, 6}}}})
			}
			var sampled [2][]uint32
			for i, ahead := range []int{1, 2} {
				e := openEngine(t, cfg)
				next := 0
				for range steps {
					for ; next < len(steps) && len(e.flight) < ahead; next++ {
						if err := e.Enqueue(steps[next]); err != nil {
							t.Fatal(err)
						}
					}
					if ahead == 2 && len(e.flight) == 2 {
						if err := e.Enqueue(steps[0]); err == nil {
							t.Fatal("a third step was launched")
						}
						if err := e.Prepare(1, 1, true); err == nil {
							t.Fatal("a graph was captured while steps run")
						}
					}
					var out gpu.Output
					if err := e.Await(t.Context(), &out); err != nil {
						t.Fatal(err)
					}
					sampled[i] = append(sampled[i], out.Sampled...)
				}
				if err := e.Await(t.Context(), &gpu.Output{}); err == nil {
					t.Fatal("a step that was not launched was awaited")
				}
			}
			if !slices.Equal(sampled[0], sampled[1]) || len(sampled[0]) != 12 {
				t.Errorf("sampled %v, and %v with two in flight", sampled[0], sampled[1])
			}
		})
	}
}
