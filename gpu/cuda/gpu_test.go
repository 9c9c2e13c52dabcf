//go:build linux && cgo

package cuda

import (
	"context"
	"fmt"
	"math"
	"os"
	"testing"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/cpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// needGPU skips a test on a machine without a GPU, unless the environment says that there must be one.
func needGPU(t testing.TB) *Libraries {
	t.Helper()
	l, err := Open(os.Getenv)
	if err == nil {
		var devices []Device
		if devices, err = Devices(); err == nil && len(devices) == 0 {
			err = fmt.Errorf("no GPU is visible")
		}
	}
	if err == nil {
		return l
	}
	if os.Getenv("FPM_REQUIRE_GPU") == "1" {
		t.Fatal(err)
	}
	t.Skip(err)
	return nil
}

const small = `"num_hidden_layers":2,"hidden_size":128,"intermediate_size":192,"vocab_size":307,"initializer_range":0.08,`

// Cut models: of each family, and of each head size and group that the kernels treat differently.
var models = []struct{ name, preset, overrides string }{
	{"llama", "llama-3.1-8b", `{` + small + `"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,"rope_scaling":{"original_max_position_embeddings":64}}`},
	{"mistral", "mistral-7b-v0.1", `{` + small + `"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,"sliding_window":37}`},
	{"qwen2", "qwen2.5-7b", `{` + small + `"num_attention_heads":4,"num_key_value_heads":2}`},
	{"qwen3", "qwen3-0.6b", `{` + small + `"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32}`},
	{"head 64", "qwen3-0.6b", `{` + small + `"num_attention_heads":4,"num_key_value_heads":1,"head_dim":64}`},
	{"rotated, head 64", "llama-3.1-8b", `{` + small + `"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64}`},
	{"head 80, group 5", "qwen3-0.6b", `{` + small + `"num_attention_heads":5,"num_key_value_heads":1,"head_dim":80}`},
	{"head 96, group 6", "qwen3-0.6b", `{` + small + `"num_attention_heads":6,"num_key_value_heads":1,"head_dim":96}`},
	{"head 128, group 7", "qwen3-0.6b", `{` + small + `"num_attention_heads":7,"num_key_value_heads":1,"head_dim":128}`},
	{"head 256, group 16", "qwen3-0.6b", `{` + small + `"num_attention_heads":16,"num_key_value_heads":1,"head_dim":256}`},
	{"group 1", "qwen3-0.6b", `{` + small + `"num_attention_heads":3,"num_key_value_heads":3,"head_dim":64}`},
}

func geometry(t testing.TB, preset, overrides string) *model.Geometry {
	t.Helper()
	g, err := model.Load(preset, []byte(overrides))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func configuration(g *model.Geometry) gpu.Config {
	return gpu.Config{Geometry: g, Weights: model.Random(5, g), Blocks: 200, BlockSize: 16, MaxBatchedTokens: 640, MaxSeqs: 8, MaxModelLen: 1024, Graph: gpu.GraphConfig{Mode: "NONE"}}
}

// pair is the CUDA engine and its reference, which run the same steps.
type pair struct {
	t    *testing.T
	cuda *Engine
	cpu  *cpu.Engine
	next int32 // block
	rows [8]struct {
		computed int
		blocks   []int32
	}
	worst float64
	ran   gpu.Dispatch // of the last step
}

func newPair(t *testing.T, l *Libraries, cfg gpu.Config) *pair {
	t.Helper()
	p := &pair{t: t, next: 1}
	var err error
	if p.cuda, err = New(cfg, l, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.cuda.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg.Graph = gpu.GraphConfig{}
	if p.cpu, err = cpu.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cpu.Close() })
	return p
}

// row makes a row that computes tokens in a slot; nil is the id sampled last.
func (p *pair) row(slot int, tokens []uint32) gpu.Row {
	s := &p.rows[slot]
	r := gpu.Row{Slot: slot, Tokens: tokens, Computed: s.computed}
	s.computed += r.New()
	for len(s.blocks)*16 < s.computed {
		s.blocks = append(s.blocks, p.next)
		p.next++
	}
	r.Blocks = s.blocks
	return r
}

// step runs rows on both and compares the logits.
func (p *pair) step(rows ...gpu.Row) {
	p.t.Helper()
	var out [2]gpu.Output
	for i, e := range []gpu.Engine{p.cuda, p.cpu} {
		if err := e.Enqueue(&gpu.Step{Rows: rows}); err != nil {
			p.t.Fatal(err)
		}
		if err := e.Await(context.Background(), &out[i]); err != nil {
			p.t.Fatal(err)
		}
		if finite, err := e.Finite(); err != nil || !finite {
			p.t.Fatalf("finite %v, %v", finite, err)
		}
	}
	p.ran = out[0].Dispatch
	for r := range rows {
		got, err := p.cuda.Logits(r)
		if err != nil {
			p.t.Fatal(err)
		}
		want, _ := p.cpu.Logits(r)
		d := distance(got, want)
		p.worst = max(p.worst, d)
		if !(d < 2e-2) {
			p.t.Errorf("row %d of %d (%d tokens on %d): the logits differ by %.2g", r, len(rows), rows[r].New(), rows[r].Computed, d)
		}
		best := 0
		for i, v := range got {
			if v > got[best] {
				best = i
			}
		}
		if out[0].Sampled[r] != uint32(best) {
			p.t.Errorf("row %d: sampled %d, the largest logit is that of %d", r, out[0].Sampled[r], best)
		}
	}
}

// distance is ||a-b|| / ||b||.
func distance(a, b []float32) float64 {
	var d, n float64
	for i := range b {
		d += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
		n += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(d / n)
}

func ids(g *model.Geometry, seed, n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = uint32((seed*7919 + i*i*31 + i*17) % g.Vocab)
	}
	return list
}

// Prefill, chunked prefill, decode after both, and mixed steps give the reference's logits within bfloat16's error.
func TestLogits(t *testing.T) {
	l := needGPU(t)
	for _, m := range models {
		t.Run(m.name, func(t *testing.T) {
			g := geometry(t, m.preset, m.overrides)
			p := newPair(t, l, configuration(g))
			some, many, steps := 70, 500, 3
			if testing.Short() {
				some, many, steps = 20, 40, 1
			}
			p.step(p.row(0, ids(g, 1, some)))
			p.step(p.row(1, ids(g, 2, 300))) // more keys than a piece of a tile holds
			p.step(p.row(0, ids(g, 3, many)), p.row(2, ids(g, 4, 1)), p.row(3, ids(g, 5, 33)))
			for i := range steps {
				p.step(p.row(0, ids(g, 6+i, 1)), p.row(1, ids(g, 7+i, 1)), p.row(2, ids(g, 8+i, 1)), p.row(3, ids(g, 9+i, 1)))
			}
			p.step(p.row(1, ids(g, 10, 1)), p.row(4, ids(g, 11, some+59)))
			t.Logf("worst row: %.2g", p.worst)
		})
	}
}

// Two runs of a shape are the same bit for bit, and a row without tokens continues with the id that was sampled.
func TestRepeats(t *testing.T) {
	l := needGPU(t)
	g := geometry(t, models[0].preset, models[0].overrides)
	var first []float32
	for range 2 {
		e, err := New(configuration(g), l, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := &pair{t: t, cuda: e, next: 1}
		var out gpu.Output
		for _, tokens := range [][]uint32{ids(g, 1, 600), nil, nil} {
			if err := e.Enqueue(&gpu.Step{Rows: []gpu.Row{p.row(0, tokens)}}); err != nil {
				t.Fatal(err)
			}
			if err := e.Await(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
		}
		logits, err := e.Logits(0)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = logits
		}
		for i := range logits {
			if math.Float32bits(logits[i]) != math.Float32bits(first[i]) {
				t.Fatalf("logit %d: %v, then %v", i, first[i], logits[i])
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Weights and cache that the device makes have the bits of those that the host makes.
func TestRandomBits(t *testing.T) {
	l := needGPU(t)
	g := geometry(t, "qwen3-0.6b", `{`+small+`"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32}`)
	cfg := configuration(g)
	e, err := New(cfg, l, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	same := func(what string, at ptr, want []float32) {
		t.Helper()
		got := make([]uint16, len(want))
		if err := e.machine.copyOut(unsafe.Pointer(&got[0]), at, 2*int64(len(got))); err != nil {
			t.Fatal(err)
		}
		for i, v := range want {
			if toBfloat16(v) != got[i] {
				t.Fatalf("%s: value %d is %#x, want %#x", what, i, got[i], toBfloat16(v))
			}
		}
	}
	tensor := func(name string, rows, cols int) []float32 {
		dst := make([]float32, rows*cols)
		if err := cfg.Weights.Fill(name, model.Rect{Rows: rows, Cols: cols}, dst); err != nil {
			t.Fatal(err)
		}
		return dst
	}
	same("embedding", e.weights.embed, tensor(model.EmbedName, g.Vocab, g.Hidden))
	same("norm", e.weights.layers[1].mlpNorm, tensor("model.layers.1.post_attention_layernorm.weight", g.Hidden, 1))
	k := tensor("model.layers.1.self_attn.k_proj.weight", g.KVSize(), g.Hidden)
	same("keys", e.weights.layers[1].qkv+ptr(2*g.QSize()*g.Hidden), k)
	per := cfg.BlockSize * g.HeadDim
	for kind := range 2 {
		want := make([]float32, g.KVHeads*per)
		model.FillNormal(want, poolSeed, uint64(((1*2+kind)*cfg.Blocks+7)*g.KVHeads*per))
		same("pool", e.cache[1]+ptr(2*(7*2+kind)*g.KVHeads*per), want)
	}
}
