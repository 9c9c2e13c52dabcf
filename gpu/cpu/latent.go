package cpu

import (
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// latent is multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024) around the attention over the cache. T is
// MaxBatchedTokens, L = KVRank + RopeDim.
//
// The cache holds one vector of L values per token, the compressed key and value and the rotated part that all heads
// share. Keys and values are never expanded: a head's query is multiplied with its half of the expansion instead, so
// that all heads attend to the compressed vectors as to one KV head, and its result is expanded afterwards.
type latent struct {
	threads *threads
	matmul  *matmul
	rotary  *rotary
	cache   *cache
	dims    model.MLA
	heads   int // of this worker
	hidden  int
	eps     float64
	tasks   latentTasks

	w     *latentWeights // of the layer in progress
	layer int
	step  *stepLayout
	n     int // tokens of the step

	queryA []float32 // (T, QRank)
	query  []float32 // (T, heads, NopeDim + RopeDim)
	keys   []float32 // (T, L)
	wide   []float32 // (T, heads, L): queries as the cache sees them
	sums   []float32 // (T, heads, KVRank): weighted sums of the compressed values
	out    []float32 // (T, heads, VDim)
}

// latentWeights is one worker's weights of a layer's latent attention, but for the output projection.
type latentWeights struct {
	queryA     []float32 // (QRank, Hidden)
	queryANorm []float32 // (QRank)
	queryB     []float32 // (heads (NopeDim + RopeDim), QRank)
	keysA      []float32 // (L, Hidden)
	keysNorm   []float32 // (KVRank)
	expand     []float32 // (heads, NopeDim + VDim, KVRank): rows of keys, then of values
}

// latentTasks are the parts of a step as function values, made once.
type latentTasks struct {
	normalise, absorb, expand func(worker, item int)
}

// newLatent makes the buffers, or returns nil for a model with another attention.
func newLatent(cfg *gpu.Config, s shard, t *threads, m *matmul, r *rotary, c *cache) *latent {
	g := cfg.Geometry
	if g.MLA == nil {
		return nil
	}
	d, n, wide := *g.MLA, cfg.MaxBatchedTokens, g.MLA.KVRank+g.MLA.RopeDim
	l := &latent{
		threads: t, matmul: m, rotary: r, cache: c, dims: d, heads: s.heads, hidden: g.Hidden, eps: g.NormEps,
		queryA: make([]float32, n*d.QRank), query: make([]float32, n*s.heads*g.HeadDim), keys: make([]float32, n*wide),
		wide: make([]float32, n*s.heads*wide), sums: make([]float32, n*s.heads*d.KVRank), out: make([]float32, n*s.heads*d.VDim),
	}
	l.tasks = latentTasks{normalise: l.normaliseToken, absorb: l.absorbTile, expand: l.expandTile}
	return l
}

// latent loads a layer's weights.
func (l *loader) latent(g *model.Geometry, s shard, prefix string) *latentWeights {
	d := g.MLA
	rows := func(name string, head, perHead, cols int) []float32 {
		return l.matrix(prefix+name, model.Rect{Row: head * perHead, Rows: s.heads * perHead, Cols: cols})
	}
	return &latentWeights{
		queryA:     l.matrix(prefix+"q_a_proj.weight", model.Rect{Rows: d.QRank, Cols: g.Hidden}),
		queryANorm: l.vector(prefix+"q_a_layernorm.weight", d.QRank),
		queryB:     rows("q_b_proj.weight", s.firstHead, g.HeadDim, d.QRank),
		keysA:      l.matrix(prefix+"kv_a_proj_with_mqa.weight", model.Rect{Rows: d.KVRank + d.RopeDim, Cols: g.Hidden}),
		keysNorm:   l.vector(prefix+"kv_a_layernorm.weight", d.KVRank),
		expand:     rows("kv_b_proj.weight", s.firstHead, d.NopeDim+d.VDim, d.KVRank),
	}
}

// before puts a layer's compressed keys into the cache and makes the queries from h (n, Hidden).
func (l *latent) before(w *latentWeights, layer int, step *stepLayout, h []float32, n int) {
	l.w, l.layer, l.step, l.n = w, layer, step, n
	d := &l.dims
	l.matmul.run(l.queryA, h, w.queryA, nil, n, l.hidden, d.QRank)
	l.matmul.run(l.keys, h, w.keysA, nil, n, l.hidden, d.KVRank+d.RopeDim)
	l.threads.run(n, l.tasks.normalise)
	l.matmul.run(l.query, l.queryA, w.queryB, nil, n, d.QRank, l.heads*(d.NopeDim+d.RopeDim))
	l.threads.run(l.heads*ceil(n, tileRows), l.tasks.absorb)
}

// after expands the sums to out.
func (l *latent) after() {
	l.threads.run(l.heads*ceil(l.n, tileRows), l.tasks.expand)
}

// normaliseToken normalises a token's compressed query and key, rotates the key's shared part and caches the key.
func (l *latent) normaliseToken(_, t int) {
	d := &l.dims
	query := l.queryA[t*d.QRank : (t+1)*d.QRank]
	rmsNorm(query, query, l.w.queryANorm, l.eps)
	wide, p := d.KVRank+d.RopeDim, l.step.positions[t]
	key := l.keys[t*wide : (t+1)*wide]
	rmsNorm(key[:d.KVRank], key[:d.KVRank], l.w.keysNorm, l.eps)
	l.rotary.applyPairs(key[d.KVRank:], p)
	copy(l.cache.slot(l.layer, 0, l.step.blocks(t), 0, p), key)
}

// tile is a head and the tokens of an item.
func (l *latent) tile(item int) (head, first, rows int) {
	head, first = item%l.heads, item/l.heads*tileRows
	return head, first, min(tileRows, l.n-first)
}

// absorbTile makes one head's wide queries: the unrotated part times the head's rows of keys, and the rotated part.
func (l *latent) absorbTile(_, item int) {
	head, first, rows := l.tile(item)
	d := &l.dims
	narrow, wide := d.NopeDim+d.RopeDim, d.KVRank+d.RopeDim
	from, to := l.query[(first*l.heads+head)*narrow:], l.wide[(first*l.heads+head)*wide:]
	for r := range rows {
		q := to[r*l.heads*wide:][:wide]
		clear(q[:d.KVRank])
		copy(q[d.KVRank:], from[r*l.heads*narrow+d.NopeDim:])
		l.rotary.applyPairs(q[d.KVRank:], l.step.positions[first+r])
	}
	expand := l.w.expand[head*(d.NopeDim+d.VDim)*d.KVRank:]
	processor.sum(rows, d.KVRank, d.NopeDim, from, l.heads*narrow, expand, d.KVRank, to, l.heads*wide)
}

// expandTile multiplies one head's sums with its rows of values.
func (l *latent) expandTile(_, item int) {
	head, first, rows := l.tile(item)
	d := &l.dims
	expand := l.w.expand[(head*(d.NopeDim+d.VDim)+d.NopeDim)*d.KVRank:]
	at := first*l.heads + head
	processor.dot(rows, d.VDim, d.KVRank, l.sums[at*d.KVRank:], l.heads*d.KVRank, expand, d.KVRank, l.out[at*d.VDim:], l.heads*d.VDim)
}
