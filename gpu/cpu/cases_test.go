package cpu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/kv"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// spoil changes the cached key and value of one position of a sequence in every layer and head.
func spoil(e *Engine, s *kv.Sequence, position int) {
	c := e.cache
	for layer := range e.cfg.Geometry.Layers {
		for kind := range 2 {
			for head := range c.heads {
				page := c.page(layer, kind, s.Blocks()[position/c.blockSize], head)
				for i := range c.dim {
					page[position%c.blockSize*c.dim+i] += 1
				}
			}
		}
	}
}

// A window of 4 means the query's own position and the three before it.
func TestCase07SlidingWindow(t *testing.T) {
	g := geometry(t, "mistral-7b-v0.1", `{`+strings.Replace(small, `"num_hidden_layers":2`, `"num_hidden_layers":1`, 1)+heads+`,"sliding_window":4}`)
	for _, bs := range []int{2, 5, 16} {
		for _, fresh := range []int{1, 2} { // decode, and a chunk whose last token counts
			t.Run(fmt.Sprintf("block%d/new%d", bs, fresh), func(t *testing.T) {
				cfg := config(g)
				cfg.BlockSize = bs
				w := start(t, cfg, 1)
				tokens := prompt(g, 1, 12+fresh)
				s := w.open(tokens, len(tokens))
				p := len(tokens) - 1
				last := func() []float32 {
					w.step(gpu.Row{Tokens: tokens[12:], Computed: 12, Blocks: s.Blocks()})
					return slices.Clone(w.logits(0))
				}
				w.run(0, s, tokens[:12], 0)
				before := last()
				spoil(w.engines[0], s, p-4)
				if !bitsEqual(last(), before) {
					t.Errorf("key %d changes the output of position %d with a window of 4", p-4, p)
				}
				if p-3 < 12 {
					spoil(w.engines[0], s, p-3)
					if bitsEqual(last(), before) {
						t.Errorf("key %d does not change the output of position %d with a window of 4", p-3, p)
					}
				}
			})
		}
	}
}

// A window that is written down but switched off is no window.
func TestCase08WindowSwitchedOff(t *testing.T) {
	for _, f := range []struct{ name, overrides string }{
		{"qwen2.5-7b", strings.Replace(qwen2Cut, `{`, `{"sliding_window":4,"use_sliding_window":false,`, 1)},
		{"mixtral-8x7b", mixtralCut}, // its window is null
	} {
		t.Run(f.name, func(t *testing.T) { testFullAttention(t, geometry(t, f.name, f.overrides)) })
	}
}

func testFullAttention(t *testing.T, g *model.Geometry) {
	cfg := config(g)
	w := start(t, cfg, 1)
	tokens := prompt(g, 1, 30)
	s := w.open(tokens, 30)
	w.run(0, s, tokens, 0)
	before := slices.Clone(w.logits(0))
	spoil(w.engines[0], s, 0)
	w.step(gpu.Row{Tokens: tokens[29:], Computed: 29, Blocks: s.Blocks()})
	if bitsEqual(w.logits(0), before) {
		t.Error("key 0 does not reach position 29: a window is on")
	}
	if got, want := w.engines[0].Info().CacheBytes, int64(cfg.Blocks*cfg.BlockSize)*g.KVBytesPerToken(4, 1); got != want {
		t.Errorf("cache of %d bytes, want %d: all blocks in all layers", got, want)
	}
}

// without is a source in which the tensors with a suffix are zero.
type without struct {
	model.Source
	suffix string
}

func (s without) Fill(name string, r model.Rect, dst []float32) error {
	if strings.HasSuffix(name, s.suffix) {
		clear(dst)
		return nil
	}
	return s.Source.Fill(name, r, dst)
}

func TestCase09Biases(t *testing.T) {
	for _, f := range families {
		g := geometry(t, f.name, f.overrides)
		var biases []string
		for tensor := range g.Tensors() {
			if strings.HasPrefix(tensor.Name, "model.layers.0.") && strings.HasSuffix(tensor.Name, ".bias") {
				biases = append(biases, strings.TrimPrefix(tensor.Name, "model.layers.0.self_attn."))
			}
		}
		var want []string
		if g.ModelType == "qwen2" {
			want = []string{"q_proj.bias", "k_proj.bias", "v_proj.bias"}
		}
		if !slices.Equal(biases, want) {
			t.Errorf("%s has biases %v, want %v", f.name, biases, want)
		}
	}
	g := geometry(t, "qwen2.5-7b", qwen2Cut)
	tokens := prompt(g, 1, 20)
	for _, suffix := range []string{"q_proj.bias", "k_proj.bias", "v_proj.bias"} {
		for _, tp := range []int{1, 2} {
			cfg := config(g)
			cfg.Weights = without{cfg.Weights, suffix}
			w := start(t, cfg, tp)
			w.run(0, w.open(tokens, 20), tokens, 0)
			full := &reference{g: g, src: config(g).Weights, t: t}
			cut := &reference{g: g, src: cfg.Weights, t: t}
			w.near(fmt.Sprintf("tp %d without %s", tp, suffix), 0, cut.logits(tokens, 0)[19], 1e-5)
			if d := distance(w.logits(0), full.logits(tokens, 0)[19]); suffix != "k_proj.bias" && d < 1e-3 {
				t.Errorf("tp %d: %s has no effect: distance %v", tp, suffix, d)
			}
		}
	}
}

func TestCase10NormThenRotate(t *testing.T) {
	g := geometry(t, "qwen3-0.6b", qwen3Cut)
	cfg := config(g)
	weights := make([]float32, g.HeadDim)
	if err := cfg.Weights.Fill("model.layers.0.self_attn.q_norm.weight", model.Rect{Rows: g.HeadDim, Cols: 1}, weights); err != nil {
		t.Fatal(err)
	}
	if slices.Max(weights) == slices.Min(weights) {
		t.Fatal("all q_norm weights are equal: the order of norm and rotation could not be seen")
	}
	w := start(t, cfg, 1)
	tokens := prompt(g, 1, 40)
	w.run(0, w.open(tokens, 40), tokens, 0)
	right := &reference{g: g, src: cfg.Weights, t: t}
	w.near("norm, then rotation", 0, right.logits(tokens, 0)[39], 1e-5)
	wrong := &reference{g: g, src: cfg.Weights, t: t, rotateFirst: true}
	if d := distance(w.logits(0), wrong.logits(tokens, 0)[39]); d < 1e-4 {
		t.Errorf("distance to rotation before norm is %.3g: the comparison cannot tell the orders apart", d)
	}
}

func TestCase11ReplicatedHeads(t *testing.T) {
	if n := geometry(t, "qwen3-30b-a3b", "").KVBytesPerToken(2, 8); n != 24_576 {
		t.Errorf("qwen3-30b-a3b at tp 8 caches %d bytes per token and rank, want 24576", n)
	}
	g := geometry(t, "qwen3-30b-a3b", `{`+small+`"num_attention_heads":8,"num_key_value_heads":4,"head_dim":32,"moe_intermediate_size":64,"num_experts":16}`)
	cfg := config(g)
	cfg.Threads = 1
	w := start(t, cfg, 8)
	for r, e := range w.engines {
		if e.shard.kvHeads != 1 || e.shard.firstKVHead != r/2 {
			t.Errorf("rank %d holds %d KV heads from %d, want head %d", r, e.shard.kvHeads, e.shard.firstKVHead, r/2)
		}
	}
	tokens := prompt(g, 1, 30)
	w.run(0, w.open(tokens, 30), tokens, 0)
	ref := &reference{g: g, src: cfg.Weights, t: t}
	w.near("tp 8 with 4 KV heads", 0, ref.logits(tokens, 0)[29], 1e-5)

	for _, c := range []struct {
		name, overrides string
		tp              int
		want            string
	}{
		{"qwen2.5-7b", "", 8, "28 heads do not divide by tp 8"},
		{"llama-3.1-8b", `{"num_attention_heads":12,"num_key_value_heads":6,"head_dim":128}`, 4, "6 KV heads neither divide by tp 4"},
		{"llama-3.1-8b", `{"intermediate_size":14337}`, 2, "intermediate_size 14337 does not divide by tp 2"},
		{"qwen3-30b-a3b", `{"moe_intermediate_size":767}`, 2, "intermediate size 767 do not divide by tp 2"},
		{"deepseek-v3", `{"num_attention_heads":126}`, 4, "126 heads do not divide by tp 4"},
		{"deepseek-v3", `{"moe_intermediate_size":2050,"n_shared_experts":3}`, 4, "shared experts of intermediate size 6150 do not divide by tp 4"},
		{"tiny", "", 0, "0 tensor-parallel workers"},
	} {
		err := Check(geometry(t, c.name, c.overrides), c.tp, 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s at tp %d: %v, want %q", c.name, c.overrides, c.tp, err, c.want)
		}
	}
}

// With the position rounded to bfloat16 the cosines would be -0.04, 0.80 and -0.27.
func TestCase12LongPositions(t *testing.T) {
	r := newRotary(model.Rope{Type: model.RopeDefault, Dim: 64, Theta: 10000, Factor: 1, OriginalMax: 16384}, 16384)
	for _, c := range []struct {
		position int
		want     float64
	}{{257, 0.819306}, {4095, -0.065976}, {15962, -0.908016}} {
		if got := float64(r.cos[c.position*r.half]); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("cosine of pair 0 at position %d = %.6f, want %.6f", c.position, got, c.want)
		}
	}
}

// The cached part of a prompt is not computed again, and the result is the same.
func TestCase20PrefixHit(t *testing.T) {
	g := geometry(t, "tiny", `{"vocab_size":256,"intermediate_size":128}`)
	w := start(t, config(g), 1)
	tokens := prompt(g, 1, 33)
	var first []float32
	for i, c := range []struct{ n, cached int }{{32, 0}, {32, 16}, {33, 32}} {
		s := w.open(tokens[:c.n], c.n)
		if s.Cached() != c.cached {
			t.Errorf("prompt %d hits %d tokens, want %d", i, s.Cached(), c.cached)
		}
		w.run(0, s, tokens[:c.n], 0)
		if i == 0 {
			first = slices.Clone(w.logits(0))
		}
		if i == 1 {
			want := make([]float64, len(first))
			for j, v := range first {
				want[j] = float64(v)
			}
			w.near("second time", 0, want, 1e-6)
		}
		s.Release()
	}
}

// Blocks whose values lie beyond the 2^31st and the 2^32nd of the pool hold what the first ones hold. The pool is 9 GiB of
// memory that is reserved, of which only the pages in use exist.
func TestCase24LargePool(t *testing.T) {
	const blocks = 70_000
	g := geometry(t, "llama-3.1-8b", `{"num_hidden_layers":1,"hidden_size":128,"intermediate_size":192,"vocab_size":307,"initializer_range":0.08,"num_attention_heads":8,"num_key_value_heads":8,"head_dim":128}`)
	w := start(t, config(g), 1)
	e := w.engines[0]
	values := 2 * blocks * 8 * 16 * 128
	pool, err := unix.Mmap(-1, 0, 4*values, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Skipf("this host does not reserve %d bytes: %v", 4*values, err)
	}
	defer func() {
		if err := unix.Munmap(pool); err != nil {
			t.Error(err)
		}
	}()
	e.cfg.Blocks = blocks
	e.cache.blocks, e.cache.data = blocks, unsafe.Slice((*float32)(unsafe.Pointer(&pool[0])), values)
	tokens := prompt(g, 1, 40)
	run := func(table []int32) []float32 {
		w.step(gpu.Row{Tokens: tokens[:37], Blocks: table})
		for at := 37; at < len(tokens); at++ {
			w.step(gpu.Row{Tokens: tokens[at : at+1], Computed: at, Blocks: table})
		}
		return slices.Clone(w.logits(0))
	}
	low := run([]int32{1, 2, 3})
	high := run([]int32{blocks - 1, 65_536, blocks - 2})
	if !bitsEqual(low, high) {
		t.Error("the last blocks of a large pool give other logits than the first")
	}
	if page := e.cache.page(0, 1, blocks-1, 7); &page[0] != &e.cache.data[values-16*128] {
		t.Error("the last page is not at the end of the pool")
	}
}

// Nothing past a row's length is ever multiplied in, not even by a weight of zero.
func TestCase22PoolOfNaN(t *testing.T) {
	for _, f := range families {
		g := geometry(t, f.name, f.overrides)
		tokens := prompt(g, 1, 20)
		var results [2][][]float32
		for i, fill := range []float32{0, float32(math.NaN())} {
			w := start(t, config(g), 1)
			data := w.engines[0].cache.data
			for j := range data {
				data[j] = fill
			}
			keep := func() { results[i] = append(results[i], slices.Clone(w.logits(0)), slices.Clone(w.logits(1))) }
			a, b := w.open(nil, 15), w.open(nil, 19)
			w.step(gpu.Row{Slot: 0, Tokens: tokens[:13], Blocks: a.Blocks()}, gpu.Row{Slot: 1, Tokens: tokens[:17], Blocks: b.Blocks()})
			keep()
			w.step(gpu.Row{Slot: 0, Tokens: tokens[13:14], Computed: 13, Blocks: a.Blocks()}, gpu.Row{Slot: 1, Tokens: tokens[17:18], Computed: 17, Blocks: b.Blocks()})
			keep()
			if ok, err := w.engines[0].Finite(); !ok || err != nil {
				t.Errorf("%s over a pool of %v: finite %v, %v", f.name, fill, ok, err)
			}
		}
		for i := range results[0] {
			if !bitsEqual(results[0][i], results[1][i]) {
				t.Errorf("%s: logits %d over a pool of NaN differ from those over zeros", f.name, i)
			}
		}
	}
}
