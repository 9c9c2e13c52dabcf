package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/kv"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// Small models of each family; llama's scaling is moved to where short sequences meet it.
const (
	small = `"num_hidden_layers":2,"hidden_size":128,"intermediate_size":192,"vocab_size":307,"initializer_range":0.08,`
	heads = `"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32`

	llamaCut   = `{` + small + heads + `,"rope_scaling":{"original_max_position_embeddings":64}}`
	mistralCut = `{` + small + heads + `,"sliding_window":4}`
	qwen2Cut   = `{` + small + `"num_attention_heads":4,"num_key_value_heads":2}`
	qwen3Cut   = `{` + small + heads + `}`

	// One dense layer beside one of 8 experts, weights as chosen; 5 experts, weights normalised.
	qwen3MoECut = `{` + small + heads + `,"num_experts":8,"num_experts_per_tok":3,"moe_intermediate_size":64,"norm_topk_prob":false,"mlp_only_layers":[0]}`
	mixtralCut  = `{` + small + heads + `,"num_local_experts":5}`

	// One dense layer, then two of 8 experts in 4 groups beside one shared expert.
	deepseekCut = `{"num_hidden_layers":3,"hidden_size":128,"intermediate_size":192,"vocab_size":307,"initializer_range":0.08,"num_attention_heads":4,
		"num_key_value_heads":4,"q_lora_rank":48,"kv_lora_rank":32,"qk_nope_head_dim":24,"qk_rope_head_dim":16,"v_head_dim":20,"first_k_dense_replace":1,
		"n_routed_experts":8,"n_group":4,"topk_group":2,"num_experts_per_tok":3,"moe_intermediate_size":64,"quantization_config":null,
		"max_position_embeddings":2560,"rope_scaling":{"original_max_position_embeddings":64}}`
)

var families = []struct{ name, overrides string }{
	{"llama-3.1-8b", llamaCut},
	{"mistral-7b-v0.1", mistralCut},
	{"qwen2.5-7b", qwen2Cut},
	{"qwen3-0.6b", qwen3Cut},
	{"qwen3-30b-a3b", qwen3MoECut},
	{"mixtral-8x7b", mixtralCut},
	{"deepseek-v3", deepseekCut},
}

func geometry(t testing.TB, name, overrides string) *model.Geometry {
	t.Helper()
	g, err := model.Load(name, []byte(overrides))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func config(g *model.Geometry) gpu.Config {
	return gpu.Config{
		Geometry: g, Weights: model.Random(5, g),
		Blocks: 32, BlockSize: 16, MaxBatchedTokens: 96, MaxSeqs: 4, MaxModelLen: 128, Threads: 2,
	}
}

// prompt is a reproducible sequence of ids.
func prompt(g *model.Geometry, seed, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32((seed*7919 + i*i*31 + i*17) % g.Vocab)
	}
	return ids
}

// world is one engine per tensor-parallel rank that run the same steps, with one block manager.
type world struct {
	t       testing.TB
	engines []*Engine
	blocks  *kv.Manager
	outs    []gpu.Output
}

func start(t testing.TB, cfg gpu.Config, tp int) *world {
	t.Helper()
	return startEach(t, cfg, tp, func(*gpu.Config, int) {})
}

// startEach is start with a change of each rank's configuration.
func startEach(t testing.TB, cfg gpu.Config, tp int, edit func(c *gpu.Config, rank int)) *world {
	t.Helper()
	w := &world{t: t, engines: make([]*Engine, tp), outs: make([]gpu.Output, tp)}
	groups := newGroups(tp)
	for r := range tp {
		c := cfg
		if tp > 1 {
			c.TP = groups[r]
		}
		edit(&c, r)
		e, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		w.engines[r] = e
	}
	var err error
	w.blocks, err = kv.New(kv.Config{Blocks: cfg.Blocks, BlockSize: cfg.BlockSize, PrefixCaching: true})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// step runs rows on all ranks and returns the sampled ids, which must agree.
func (w *world) step(rows ...gpu.Row) []uint32 {
	w.t.Helper()
	w.enqueue(&gpu.Step{Rows: rows})
	return w.await()
}

func (w *world) enqueue(step *gpu.Step) {
	w.t.Helper()
	for r, e := range w.engines {
		if err := e.Enqueue(step); err != nil {
			w.t.Fatalf("rank %d: %v", r, err)
		}
	}
}

func (w *world) await() []uint32 {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for r, e := range w.engines {
		if err := e.Await(ctx, &w.outs[r]); err != nil {
			w.t.Fatalf("rank %d: %v", r, err)
		}
		if !slices.Equal(w.outs[r].Sampled, w.outs[0].Sampled) {
			w.t.Fatalf("rank %d sampled %v, rank 0 %v", r, w.outs[r].Sampled, w.outs[0].Sampled)
		}
	}
	return w.outs[0].Sampled
}

// logits puts the shards of one row of the last step together.
func (w *world) logits(row int) []float32 {
	var all []float32
	for _, e := range w.engines {
		part, first := e.Logits(row)
		if first != len(all) {
			w.t.Fatalf("shard begins at id %d, want %d", first, len(all))
		}
		all = append(all, part...)
	}
	return all
}

// open starts a sequence with blocks for n tokens.
func (w *world) open(tokens []uint32, n int) *kv.Sequence {
	w.t.Helper()
	s := w.blocks.Open(tokens, "")
	if err := s.Grow(n); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// run computes a prompt in chunks of the given sizes from its cached tokens on; 0 means the rest.
func (w *world) run(slot int, s *kv.Sequence, tokens []uint32, chunks ...int) {
	w.t.Helper()
	at := s.Cached()
	for _, n := range chunks {
		if n == 0 {
			n = len(tokens) - at
		}
		w.step(gpu.Row{Slot: slot, Tokens: tokens[at : at+n], Computed: at, Blocks: s.Blocks()})
		at += n
	}
	s.Commit(tokens)
}

func (w *world) near(what string, row int, want []float64, limit float64) {
	w.t.Helper()
	if d := distance(w.logits(row), want); !(d <= limit) {
		w.t.Errorf("%s: relative distance of the logits %.3g, want at most %.3g", what, d, limit)
	}
}

// group is an in-process gpu.Group.
type group struct {
	rank int
	hub  *hub
}

type hub struct {
	mu      sync.Mutex
	turn    *sync.Cond
	size    int
	arrived int
	phase   int
	broken  bool
	parts   [][]float32
	sizes   [][]int
	sum     []float32
}

func newGroups(n int) []*group {
	h := &hub{size: n, parts: make([][]float32, n), sizes: make([][]int, n)}
	h.turn = sync.NewCond(&h.mu)
	all := make([]*group, n)
	for r := range all {
		all[r] = &group{r, h}
	}
	return all
}

func (g *group) Rank() int { return g.rank }
func (g *group) Size() int { return g.hub.size }

var errBroken = errors.New("group is broken")

// fail ends all operations, present and future.
func (h *hub) fail() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = true
	h.turn.Broadcast()
}

// meet waits until all members called it.
func (h *hub) meet() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	phase := h.phase
	if h.arrived++; h.arrived == h.size {
		h.arrived = 0
		h.phase++
		h.turn.Broadcast()
	}
	for phase == h.phase && !h.broken {
		h.turn.Wait()
	}
	if h.broken {
		return errBroken
	}
	return nil
}

func (g *group) AllReduce(data []float32) error {
	h := g.hub
	h.parts[g.rank] = data
	if err := h.meet(); err != nil {
		return err
	}
	if g.rank == 0 {
		h.sum = append(h.sum[:0], data...)
		for _, p := range h.parts[1:] {
			if len(p) != len(data) {
				return errors.New("members reduce different sizes")
			}
			for i, v := range p {
				h.sum[i] += v
			}
		}
	}
	if err := h.meet(); err != nil {
		return err
	}
	copy(data, h.sum)
	return h.meet()
}

func (g *group) AllGather(dst, src []float32) error {
	h := g.hub
	h.parts[g.rank] = src
	if err := h.meet(); err != nil {
		return err
	}
	for r, p := range h.parts {
		copy(dst[r*len(src):(r+1)*len(src)], p)
	}
	return h.meet()
}

func (g *group) AllToAll(recv []float32, recvSizes []int, send []float32, sendSizes []int) error {
	h := g.hub
	h.parts[g.rank], h.sizes[g.rank] = send, sendSizes
	if err := h.meet(); err != nil {
		return err
	}
	at := 0
	for r, n := range recvSizes {
		if h.sizes[r][g.rank] != n {
			return fmt.Errorf("rank %d expects %d values from rank %d, which sends %d", g.rank, n, r, h.sizes[r][g.rank])
		}
		first := 0
		for _, before := range h.sizes[r][:g.rank] {
			first += before
		}
		copy(recv[at:at+n], h.parts[r][first:])
		at += n
	}
	return h.meet()
}

func bitsEqual(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
