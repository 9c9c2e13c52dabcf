//go:build linux && cgo

package cuda

import (
	"fmt"
	"slices"

	"github.com/fpmrun/fpmrun/gpu"
)

// shape is the shape of the program that runs a step.
func (e *Engine) shape(tokens, rows int, decode bool) shape {
	d := e.cfg.Graph.Plan(tokens, decode)
	if d.Mode == gpu.GraphFull && decode {
		rows = d.Padded
	}
	return shape{d.Mode, d.Padded, rows}
}

// program is the commands of steps of a shape.
func (e *Engine) program(s shape) (*program, error) {
	if p := e.programs[s]; p != nil {
		return p, nil
	}
	if len(e.programs) == shapes {
		for k, p := range e.programs {
			p.free()
			delete(e.programs, k)
			break
		}
	}
	b := &builder{m: e.machine, functions: e.functions, gemms: e.gemms}
	if err := e.list(b, s); err != nil {
		return nil, err
	}
	p, err := b.build()
	if err == nil {
		p.shape = s
		e.programs[s] = p
	}
	return p, err
}

// list lists the commands of a step, from the token ids to the sampled ids on the host. A full graph of a step in which each row is one token holds
// all of them; any other graph ends before the last norm, since what follows depends on the number of rows.
func (e *Engine) list(b *builder, s shape) (err error) {
	switch {
	case s.mode == gpu.GraphNone:
		e.body(b, s.tokens)
		e.tail(b, s.rows)
	case s.mode == gpu.GraphFull && s.rows == s.tokens:
		e.body(b, s.tokens)
		e.tail(b, s.rows)
		if b.err == nil {
			b.commands, err = e.machine.capture(b.commands, none)
		}
	default:
		if err = e.capturedBody(b, s); err == nil {
			e.tail(b, s.rows)
		}
	}
	return err
}

// capturedBody lists the body of a step in the graphs of its mode, which steps of any number of rows share.
func (e *Engine) capturedBody(b *builder, s shape) (err error) {
	s.rows = 0
	body, captured := e.bodies[s]
	if !captured {
		e.body(b, s.tokens)
		if b.err != nil {
			return b.err
		}
		keep := none
		if s.mode == gpu.GraphPiecewise {
			keep = attends
		}
		if body, err = e.machine.capture(b.commands, keep); err != nil {
			return err
		}
		e.bodies[s] = body
	}
	b.commands = commands{slices.Clone(body.list), slices.Clone(body.names)} // a tail is added to them
	return nil
}

// body lists the commands from the token ids to the output of the last layer.
func (e *Engine) body(b *builder, tokens int) {
	g, buf, l := e.cfg.Geometry, &e.buf, &e.layout
	at := func(word int) ptr { return buf.step + ptr(4*word) }
	eps := float32(g.NormEps)
	kernel(b, "embed", "embedding", [3]int{tokens, 1, 1}, 256, embedArgs{ids: at(l.ids), slots: at(l.slots), sampled: buf.sampled, table: e.weights.embed, x: buf.x, hidden: int32(g.Hidden)})
	added := ptr(0) // output of the block before, which the next norm adds to the residual stream
	qkv := g.QSize() + 2*g.KVSize()
	for i := range e.weights.layers {
		w := &e.weights.layers[i]
		name := func(what string) string { return fmt.Sprintf("layer %d: %s", i, what) }
		kernel(b, "rms_norm", name("input norm"), [3]int{tokens, 1, 1}, 256, normArgs{x: buf.x, y: added, w: w.attnNorm, out: buf.h, hidden: int32(g.Hidden), eps: eps})
		b.gemm(name("qkv"), gemmShape{tokens: tokens, n: qkv, k: g.Hidden, bias: w.qkvBias}, buf.h, w.qkv, buf.qkv)
		kernel(b, "keys", name("rotation and cache"), [3]int{tokens, g.Heads + 2*g.KVHeads, 1}, (g.HeadDim+31)/32*32, keysArgs{qkv: buf.qkv, cache: e.cache[i],
			positions: at(l.positions), places: at(l.places), cosines: buf.cosines, sines: buf.sines, qNorm: w.qNorm, kNorm: w.kNorm,
			heads: int32(g.Heads), kvHeads: int32(g.KVHeads), blockSize: int32(l.blockSize), half: int32(buf.half), eps: eps})
		window := slices.Index(l.windows, g.Windows[i])
		attention := attentionArgs{qkv: buf.qkv, cache: e.cache[i], tables: at(l.tables), tiles: at(l.tiles + window*l.tokens*tileWords), items: at(l.items + window*l.itemsMax()*itemWords),
			counts: at(l.counts + 2*window), partial: buf.partial, out: buf.attn, heads: int32(g.Heads), kvHeads: int32(g.KVHeads), blockSize: int32(l.blockSize), tableWidth: int32(l.width),
			window: int32(g.Windows[i]), scale: softmaxScale(g.SoftmaxScale())}
		grid := [3]int{l.pieces, g.KVHeads, 1} // whatever the work: blocks take items one after the other
		kernel(b, "attention", name("attention"), grid, 128, attention)
		kernel(b, "combine", name("pieces of attention"), grid, 128, attention)
		b.gemm(name("attention output"), gemmShape{tokens: tokens, n: g.Hidden, k: g.QSize(), bias: w.outBias}, buf.attn, w.out, buf.y)
		kernel(b, "rms_norm", name("norm of the MLP"), [3]int{tokens, 1, 1}, 256, normArgs{x: buf.x, y: buf.y, w: w.mlpNorm, out: buf.h, hidden: int32(g.Hidden), eps: eps})
		b.gemm(name("gate and up"), gemmShape{tokens: tokens, n: 2 * g.Intermediate, k: g.Hidden, bias: w.gateUpBias}, buf.h, w.gateUp, buf.gateUp)
		kernel(b, "gate", name("SwiGLU"), [3]int{(g.Intermediate + 1023) / 1024, tokens, 1}, 256, gateArgs{in: buf.gateUp, out: buf.act, width: int32(g.Intermediate)})
		b.gemm(name("down"), gemmShape{tokens: tokens, n: g.Hidden, k: g.Intermediate, bias: w.downBias}, buf.act, w.down, buf.y)
		added = buf.y
	}
}

// tail lists the commands from the output of the last layer to the sampled ids on the host.
func (e *Engine) tail(b *builder, rows int) {
	g, buf, l := e.cfg.Geometry, &e.buf, &e.layout
	at := func(word int) ptr { return buf.step + ptr(4*word) }
	kernel(b, "rms_norm", "last norm", [3]int{rows, 1, 1}, 256, normArgs{x: buf.x, y: buf.y, w: e.weights.norm, out: buf.h, pick: at(l.last), hidden: int32(g.Hidden), eps: float32(g.NormEps)})
	b.gemm("LM head", gemmShape{tokens: rows, n: g.Vocab, k: g.Hidden, float: true}, buf.h, e.weights.head, buf.logits)
	kernel(b, "argmax", "sampling", [3]int{rows, 1, 1}, 1024, argmaxArgs{logits: buf.logits, slots: at(l.rowSlots), sampled: buf.sampled, ids: buf.ids, vocab: int32(g.Vocab)})
	kernel(b, "publish", "ids to the host", [3]int{1, 1, 1}, 256, publishArgs{ids: buf.ids, host: buf.result, step: at(l.number), rows: int32(rows), size: int32(l.rows + 1)})
}
