package cpu

import (
	"github.com/fpmrun/fpmrun/gpu/model"
)

// layer is one worker's weights of a decoder layer. Matrices are (out, in) row by row.
type layer struct {
	attnNorm, mlpNorm []float32      // (Hidden)
	latent            *latentWeights // instead of qkv and what belongs to it; nil without latent attention
	qkv               []float32      // ((heads + 2 kvHeads) HeadDim, Hidden): query, key, value rows
	qkvBias           []float32      // ((heads + 2 kvHeads) HeadDim) or nil
	qNorm, kNorm      []float32      // (HeadDim) or nil
	out               []float32      // (Hidden, heads HeadDim), of latent attention (Hidden, heads VDim)
	outBias           []float32      // (Hidden), on worker 0 alone, or nil
	mlp               mlp            // of a dense layer
	sparse            *sparse        // routed experts instead; nil in a dense layer
}

// mlp is one worker's part of a gated feed-forward network.
type mlp struct {
	width      int
	gateUp     []float32 // (2 width, Hidden): gate rows, then up rows
	gateUpBias []float32 // (2 width) or nil
	down       []float32 // (Hidden, width)
	downBias   []float32 // (Hidden), on worker 0 alone, or nil
}

// sparse is one worker's part of a sparse layer's experts: the same columns of all, or some of them whole.
type sparse struct {
	router []float32   // (Count, Hidden)
	bias   []float32   // (Count): added to the scores that choose, or nil
	shared *mlp        // every token's experts as one, or nil
	gateUp [][]float32 // (experts, 2 expertWidth, Hidden): gate rows, then up rows
	down   [][]float32 // (experts, Hidden, expertWidth)
}

// weights is one worker's shard of a model.
type weights struct {
	embed  []float32 // (vocab, Hidden)
	head   []float32 // (vocab, Hidden); the same memory as embed when tied
	norm   []float32 // (Hidden)
	layers []layer
	bytes  int64
}

// loader fills slices from a source and keeps the first error.
type loader struct {
	src   model.Source
	bytes int64
	err   error
}

// part fills a rectangle of a tensor into dst.
func (l *loader) part(name string, r model.Rect, dst []float32) {
	if l.err == nil {
		l.err = l.src.Fill(name, r, dst)
	}
}

// make is room for weights.
func (l *loader) make(n int) []float32 {
	l.bytes += 4 * int64(n)
	return make([]float32, n)
}

// matrix is a rectangle of a tensor.
func (l *loader) matrix(name string, r model.Rect) []float32 {
	dst := l.make(r.Rows * r.Cols)
	l.part(name, r, dst)
	return dst
}

// vector is a whole one-dimensional tensor.
func (l *loader) vector(name string, n int) []float32 {
	return l.matrix(name, model.Rect{Rows: n, Cols: 1})
}

// loadWeights makes the shard's weights.
func loadWeights(g *model.Geometry, s shard, src model.Source) (*weights, error) {
	l := &loader{src: src}
	w := &weights{layers: make([]layer, g.Layers)}
	w.embed = l.matrix(model.EmbedName, model.Rect{Row: s.firstToken, Rows: s.vocab, Cols: g.Hidden})
	for i := range w.layers {
		w.layers[i] = l.layer(g, s, i)
	}
	w.norm = l.vector(model.NormName, g.Hidden)
	w.head = w.embed
	if !g.Tied {
		w.head = l.matrix(model.HeadName, model.Rect{Row: s.firstToken, Rows: s.vocab, Cols: g.Hidden})
	}
	w.bytes = l.bytes
	return w, l.err
}

func (l *loader) layer(g *model.Geometry, s shard, i int) layer {
	p := model.LayerPrefix(i)
	a := p + "self_attn."
	w := layer{
		attnNorm: l.vector(p+"input_layernorm.weight", g.Hidden),
		mlpNorm:  l.vector(p+"post_attention_layernorm.weight", g.Hidden),
	}
	if g.MLA != nil {
		w.latent = l.latent(g, s, a)
		v := g.MLA.VDim
		w.out = l.matrix(a+"o_proj.weight", model.Rect{Col: s.firstHead * v, Rows: g.Hidden, Cols: s.heads * v})
	} else {
		l.attention(g, s, a, &w)
	}
	if g.IsSparse(i) {
		w.sparse = l.experts(g, s, i)
	} else {
		w.mlp = l.dense(g, p+"mlp.", s.firstColumn, s.width)
	}
	return w
}

// attention loads the weights of grouped-query attention.
func (l *loader) attention(g *model.Geometry, s shard, a string, w *layer) {
	d := g.HeadDim
	parts := []struct {
		name        string
		first, rows int
	}{
		{a + "q_proj", s.firstHead * d, s.heads * d},
		{a + "k_proj", s.firstKVHead * d, s.kvHeads * d},
		{a + "v_proj", s.firstKVHead * d, s.kvHeads * d},
	}
	rows := (s.heads + 2*s.kvHeads) * d
	w.qkv = l.make(rows * g.Hidden)
	if g.QKVBias {
		w.qkvBias = l.make(rows)
	}
	at := 0
	for _, p := range parts {
		l.part(p.name+".weight", model.Rect{Row: p.first, Rows: p.rows, Cols: g.Hidden}, w.qkv[at*g.Hidden:(at+p.rows)*g.Hidden])
		if g.QKVBias {
			l.part(p.name+".bias", model.Rect{Row: p.first, Rows: p.rows, Cols: 1}, w.qkvBias[at:at+p.rows])
		}
		at += p.rows
	}
	if g.QKNorm {
		w.qNorm = l.vector(a+"q_norm.weight", d)
		w.kNorm = l.vector(a+"k_norm.weight", d)
	}
	w.out = l.matrix(a+"o_proj.weight", model.Rect{Col: s.firstHead * d, Rows: g.Hidden, Cols: s.heads * d})
	if g.OutBias && s.rank == 0 {
		w.outBias = l.vector(a+"o_proj.bias", g.Hidden)
	}
}

// experts loads a sparse layer's router and experts.
func (l *loader) experts(g *model.Geometry, s shard, layer int) *sparse {
	w := &sparse{router: l.matrix(g.RouterName(layer), model.Rect{Rows: g.Experts.Count, Cols: g.Hidden})}
	if g.Experts.Sigmoid {
		w.bias = l.vector(g.RouterBiasName(layer), g.Experts.Count)
	}
	if s.sharedWidth > 0 {
		m := l.dense(g, g.SharedPrefix(layer), s.rank*s.sharedWidth, s.sharedWidth)
		w.shared = &m
	}
	half := s.expertWidth * g.Hidden
	rows := model.Rect{Row: s.firstExpertColumn, Rows: s.expertWidth, Cols: g.Hidden}
	cols := model.Rect{Col: s.firstExpertColumn, Rows: g.Hidden, Cols: s.expertWidth}
	for x := s.firstExpert; x < s.firstExpert+s.experts; x++ {
		gateUp := l.make(2 * half)
		l.part(g.ExpertName(layer, x, "gate"), rows, gateUp[:half])
		l.part(g.ExpertName(layer, x, "up"), rows, gateUp[half:])
		w.gateUp = append(w.gateUp, gateUp)
		w.down = append(w.down, l.matrix(g.ExpertName(layer, x, "down"), cols))
	}
	return w
}

// dense loads width columns of a feed-forward network.
func (l *loader) dense(g *model.Geometry, prefix string, first, width int) mlp {
	m := mlp{width: width, gateUp: l.make(2 * width * g.Hidden)}
	half := width * g.Hidden
	r := model.Rect{Row: first, Rows: width, Cols: g.Hidden}
	l.part(prefix+"gate_proj.weight", r, m.gateUp[:half])
	l.part(prefix+"up_proj.weight", r, m.gateUp[half:])
	m.down = l.matrix(prefix+"down_proj.weight", model.Rect{Col: first, Rows: g.Hidden, Cols: width})
	if g.MLPBias {
		m.gateUpBias = l.make(2 * width)
		r.Cols = 1
		l.part(prefix+"gate_proj.bias", r, m.gateUpBias[:width])
		l.part(prefix+"up_proj.bias", r, m.gateUpBias[width:])
		if first == 0 {
			m.downBias = l.vector(prefix+"down_proj.bias", g.Hidden)
		}
	}
	return m
}
