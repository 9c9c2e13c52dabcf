package cpu

import "github.com/fpmrun/fpmrun/gpu"

// stepLayout is where the tokens of a step come from; T is MaxBatchedTokens and R is MaxSeqs.
type stepLayout struct {
	step      *gpu.Step // the step in flight or the last one
	ids       []uint32  // (T)
	positions []int     // (T)
	rows      []int     // (T): row of each token
	last      []int     // (R): last token of each row
}

// blocks is the block table of a token's sequence.
func (l *stepLayout) blocks(t int) []int32 { return l.step.Rows[l.rows[t]].Blocks }

// buffers are the activations of a step; T is MaxBatchedTokens and R is MaxSeqs.
type buffers struct {
	stepLayout
	x      []float32 // (T, Hidden): residual stream
	h      []float32 // (T, Hidden): normalised input of a block, then its output
	qkv    []float32 // (T, (heads + 2 kvHeads) HeadDim); nil with latent attention, and so is attn
	attn   []float32 // (T, heads HeadDim)
	gateUp []float32 // (T, 2 width)
	act    []float32 // (T, width)
	logits []float32 // (R, vocab)
}

func newBuffers(cfg *gpu.Config, s shard) buffers {
	g, t, r := cfg.Geometry, cfg.MaxBatchedTokens, cfg.MaxSeqs
	b := buffers{
		stepLayout: stepLayout{ids: make([]uint32, t), positions: make([]int, t), rows: make([]int, t), last: make([]int, r)},
		x:          make([]float32, t*g.Hidden), h: make([]float32, max(t, r)*g.Hidden),
		gateUp: make([]float32, t*2*s.width), act: make([]float32, t*s.width),
		logits: make([]float32, r*s.vocab),
	}
	if g.MLA == nil {
		b.qkv = make([]float32, t*(s.heads+2*s.kvHeads)*g.HeadDim)
		b.attn = make([]float32, t*s.heads*g.HeadDim)
	}
	return b
}

// tasks are the per-token and per-row parts of a step as function values, made once so that running them
// does not allocate.
type tasks struct {
	embed, norm, add, keys, gate, pick, argmax func(worker, item int)
}

// forward runs one step up to the sampled ids.
func (e *Engine) forward(step *gpu.Step) error {
	g, b := e.cfg.Geometry, &e.buf
	n := e.lay(step)
	e.threads.run(n, e.tasks.embed)
	if err := e.reduce(b.x[:n*g.Hidden]); err != nil {
		return err
	}
	for i := range e.weights.layers {
		e.layer = i
		w := &e.weights.layers[i]
		e.normWeight = w.attnNorm
		e.threads.run(n, e.tasks.norm)
		e.attend(w, n)
		if err := e.addReduced(n); err != nil {
			return err
		}
		e.normWeight = w.mlpNorm
		e.threads.run(n, e.tasks.norm)
		if err := e.feedForward(w, n); err != nil {
			return err
		}
		if err := e.addReduced(n); err != nil {
			return err
		}
	}
	rows := len(step.Rows)
	e.threads.run(rows, e.tasks.pick)
	e.matmul.run(b.logits, b.h, e.weights.head, nil, rows, g.Hidden, e.shard.vocab)
	return e.sample(step)
}

// attend replaces the normalised input of n tokens by this worker's part of the layer's attention.
func (e *Engine) attend(w *layer, n int) {
	g, b := e.cfg.Geometry, &e.buf
	if w.latent != nil {
		e.latent.before(w.latent, e.layer, &b.stepLayout, b.h, n)
		e.attn.run(e.layer, 0, e.latent.wide, e.latent.sums)
		e.latent.after()
		e.matmul.run(b.h, e.latent.out, w.out, nil, n, e.shard.heads*g.MLA.VDim, g.Hidden)
		return
	}
	e.matmul.run(b.qkv, b.h, w.qkv, w.qkvBias, n, g.Hidden, e.attn.qkvWidth)
	e.threads.run(n, e.tasks.keys)
	e.attn.run(e.layer, g.Windows[e.layer], b.qkv, b.attn)
	e.matmul.run(b.h, b.attn, w.out, w.outBias, n, e.attn.outWidth, g.Hidden)
}

// feedForward replaces the normalised input of n tokens by this worker's part of the layer's output.
func (e *Engine) feedForward(w *layer, n int) error {
	b, hidden := &e.buf, e.cfg.Geometry.Hidden
	if w.sparse != nil {
		return e.experts.run(w.sparse, b.h, n)
	}
	e.matmul.run(b.gateUp, b.h, w.mlp.gateUp, w.mlp.gateUpBias, n, hidden, 2*w.mlp.width)
	e.threads.run(n, e.tasks.gate)
	e.matmul.run(b.h, b.act, w.mlp.down, w.mlp.downBias, n, w.mlp.width, hidden)
	return nil
}

// lay writes the step's tokens one after the other and plans attention; it returns their number.
func (e *Engine) lay(step *gpu.Step) int {
	b := &e.buf
	e.attn.tiles = e.attn.tiles[:0]
	b.step = step
	n := 0
	for i := range step.Rows {
		r := &step.Rows[i]
		first := n
		for j := range r.New() {
			id := e.lastID[r.Slot]
			if r.Tokens != nil {
				id = r.Tokens[j]
			}
			b.ids[n], b.positions[n], b.rows[n] = id, r.Computed+j, i
			n++
		}
		b.last[i] = n - 1
		e.attn.plan(first, n-first, r.Computed, r.Blocks)
	}
	return n
}

// reduce adds a partial result over the tensor-parallel group.
func (e *Engine) reduce(data []float32) error {
	if e.shard.size == 1 || len(data) == 0 {
		return nil
	}
	return e.cfg.TP.AllReduce(data)
}

// addReduced sums a block's output over the group and adds it to the residual stream of n tokens.
func (e *Engine) addReduced(n int) error {
	if err := e.reduce(e.buf.h[:n*e.cfg.Geometry.Hidden]); err != nil {
		return err
	}
	e.threads.run(n, e.tasks.add)
	return nil
}

// embedToken copies a token's embedding, or zeros when another worker of the group has it.
func (e *Engine) embedToken(_, t int) {
	hidden := e.cfg.Geometry.Hidden
	x := e.buf.x[t*hidden : (t+1)*hidden]
	row := int(e.buf.ids[t]) - e.shard.firstToken
	if row < 0 || row >= e.shard.vocab {
		clear(x)
		return
	}
	copy(x, e.weights.embed[row*hidden:])
}

func (e *Engine) normToken(_, t int) {
	hidden := e.cfg.Geometry.Hidden
	rmsNorm(e.buf.h[t*hidden:(t+1)*hidden], e.buf.x[t*hidden:(t+1)*hidden], e.normWeight, e.cfg.Geometry.NormEps)
}

func (e *Engine) addToken(_, t int) {
	hidden := e.cfg.Geometry.Hidden
	x := e.buf.x[t*hidden : (t+1)*hidden]
	for i, v := range e.buf.h[t*hidden : (t+1)*hidden] {
		x[i] += v
	}
}

// keysToken normalises (where the family does) and rotates a token's queries and keys, in this order, and
// puts keys and values into the cache.
func (e *Engine) keysToken(_, t int) {
	g, s := e.cfg.Geometry, &e.shard
	d := g.HeadDim
	w := &e.weights.layers[e.layer]
	qkv := e.buf.qkv[t*e.attn.qkvWidth : (t+1)*e.attn.qkvWidth]
	p := e.buf.positions[t]
	for h := range s.heads + s.kvHeads {
		v := qkv[h*d : (h+1)*d]
		norm := w.qNorm
		if h >= s.heads {
			norm = w.kNorm
		}
		if norm != nil {
			rmsNorm(v, v, norm, g.NormEps)
		}
		e.rotary.apply(v, p)
	}
	blocks := e.buf.blocks(t)
	keys := qkv[s.heads*d:]
	values := keys[s.kvHeads*d:]
	for h := range s.kvHeads {
		copy(e.cache.slot(e.layer, 0, blocks, h, p), keys[h*d:(h+1)*d])
		copy(e.cache.slot(e.layer, 1, blocks, h, p), values[h*d:(h+1)*d])
	}
}

func (e *Engine) gateToken(_, t int) {
	w := e.weights.layers[e.layer].mlp.width
	processor.gated(e.buf.act[t*w:(t+1)*w], e.buf.gateUp[t*2*w:(t+1)*2*w])
}

// pickRow normalises the last token of a row as input of the head.
func (e *Engine) pickRow(_, r int) {
	hidden := e.cfg.Geometry.Hidden
	t := e.buf.last[r]
	rmsNorm(e.buf.h[r*hidden:(r+1)*hidden], e.buf.x[t*hidden:(t+1)*hidden], e.weights.norm, e.cfg.Geometry.NormEps)
}
