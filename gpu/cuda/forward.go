//go:build linux && cgo

package cuda

import (
	"fmt"
	"slices"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/kernels"
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
	b := &builder{m: e.machine, functions: e.functions, gemms: e.gemms, weights: e.weights, progress: e.watchdog.progress}
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
		e.body(b, s.tokens, s.rows)
		e.tail(b, s.tokens, s.rows)
	case s.mode == gpu.GraphFull && s.rows == s.tokens:
		e.body(b, s.tokens, s.rows)
		e.tail(b, s.tokens, s.rows)
		if b.err == nil {
			b.commands, err = e.machine.capture(b.commands, none)
		}
	default:
		if err = e.capturedBody(b, s); err == nil {
			e.tail(b, s.tokens, s.rows)
		}
	}
	return err
}

// capturedBody lists the body of a step in the graphs of its mode, which steps of any number of rows share.
func (e *Engine) capturedBody(b *builder, s shape) (err error) {
	s.rows = 0
	body, captured := e.bodies[s]
	if !captured {
		e.body(b, s.tokens, s.rows)
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

// body lists the commands from the token ids to the output of the last layer, for a number of rows or any, which is 0. That of few tokens is complete in the residual stream; else the output
// of the last block is not added to it yet.
func (e *Engine) body(b *builder, tokens, rows int) {
	g, buf, l := e.cfg.Geometry, &e.buf, e.layout.of(tokens)
	embed := embedArgs{ids: e.at(l.ids), slots: e.at(l.slots), sampled: buf.sampled, table: e.weights.embed, x: buf.x, squares: buf.squares, hidden: int32(g.Hidden)}
	if e.few(tokens) {
		embed.norm, embed.normed = e.weights.layers[0].attnNorm, buf.h
	}
	kernel(b, "embed", "embedding", [3]int{tokens, 1, 1}, 256, embed)
	for i := range e.weights.layers {
		if e.few(tokens) {
			e.fewLayer(b, i, tokens)
		} else {
			e.manyLayer(b, i, tokens, rows)
		}
	}
}

// at is the address of a word of the step structure.
func (e *Engine) at(word int) ptr { return e.buf.step + ptr(4*word) }

// layerName says what a command of a layer is for.
func layerName(layer int, what string) string { return fmt.Sprintf("layer %d: %s", layer, what) }

// manyLayer lists a layer whose products are the library's.
func (e *Engine) manyLayer(b *builder, i, tokens, rows int) {
	g, buf, w := e.cfg.Geometry, &e.buf, &e.weights.layers[i]
	added := buf.y // output of the block before, which a norm adds to the residual stream
	if i == 0 {
		added = 0
	}
	e.norm(b, layerName(i, "input norm"), tokens, normArgs{y: added, w: w.attnNorm})
	e.libraryQKV(b, i, tokens)
	e.keys(b, i, tokens)
	e.attention(b, i, tokens)
	if tokens != rows { // there may be rows with many tokens
		e.attentionWide(b, i, tokens, e.device.hopper())
	}
	e.libraryOut(b, i, tokens)
	e.norm(b, layerName(i, "norm of the MLP"), tokens, normArgs{y: buf.y, w: w.mlpNorm})
	e.libraryGateUp(b, i, tokens)
	kernel(b, "gate", layerName(i, "SwiGLU"), [3]int{(g.Intermediate + 2047) / 2048, tokens, 1}, 256, gateArgs{in: buf.gateUp, out: buf.act, width: int32(g.Intermediate)})
	e.libraryDown(b, i, tokens)
}

// norm lists the norm of so many rows of the residual stream.
func (e *Engine) norm(b *builder, purpose string, rows int, args normArgs) {
	g := e.cfg.Geometry
	args.x, args.out, args.hidden, args.eps = e.buf.x, e.buf.h, int32(g.Hidden), float32(g.NormEps)
	kernel(b, "rms_norm", purpose, [3]int{rows, 1, 1}, 256, args)
}

// keys lists the rotation of queries and keys, and the way of keys and values into the cache.
func (e *Engine) keys(b *builder, i, tokens int) {
	g, buf, l, w := e.cfg.Geometry, &e.buf, e.layout.of(tokens), &e.weights.layers[i]
	kernel(b, "keys", layerName(i, "rotation and cache"), [3]int{(tokens*(g.Heads+2*g.KVHeads) + 7) / 8, 1, 1}, 256, keysArgs{qkv: buf.qkv, cache: e.cache[i],
		positions: e.at(l.positions), places: e.at(l.places), cosines: buf.cosines, sines: buf.sines, qNorm: w.qNorm, kNorm: w.kNorm,
		heads: int32(g.Heads), kvHeads: int32(g.KVHeads), blockSize: int32(l.blockSize), half: int32(buf.half), tokens: int32(tokens), eps: float32(g.NormEps)})
}

// attention lists the attention of a layer. Its grid is the same whatever the work: it is in the lists of the step structure.
func (e *Engine) attention(b *builder, i, tokens int) {
	g, c := e.cfg.Geometry, e.layout.of(tokens).cut
	name, shared := "attention", attentionShared(g.HeadDim)
	if c.rows == fewRows {
		name, shared = kernels.Few, besideShared(g.HeadDim)
	}
	sharedKernel(b, name, layerName(i, "attention"), [3]int{c.lists, g.KVHeads, 1}, attentionThreads, shared, e.attentionArgs(i, tokens))
}

// attentionWide lists the attention of the wide tiles of a layer, by the kernel of compute capability 9.0 or the one for all.
func (e *Engine) attentionWide(b *builder, i, tokens int, hopper bool) {
	d := e.cfg.Geometry.HeadDim
	if !tensorHeads(d) {
		return
	}
	k, grid, purpose, args := wideKernelFor(d, hopper), [3]int{e.device.Multiprocessors, 1, 1}, layerName(i, "attention of many tokens"), e.attentionArgs(i, tokens)
	if hopper {
		sharedKernel(b, k.name, purpose, grid, k.threads, k.shared, attentionHopperArgs{e.attends.caches[i], e.attends.queries, args})
	} else {
		sharedKernel(b, k.name, purpose, grid, k.threads, k.shared, args)
	}
}

func (e *Engine) attentionArgs(i, tokens int) attentionArgs {
	g, buf, l := e.cfg.Geometry, &e.buf, e.layout.of(tokens)
	window := slices.Index(l.windows, g.Windows[i])
	return attentionArgs{
		qkv: buf.qkv, cache: e.cache[i], tables: e.at(l.tables), tiles: e.at(l.tiles + window*l.tokens*tileWords), items: e.at(l.items + window*l.itemsMax()*itemWords),
		starts: e.at(l.starts + window*(l.lists+1)), wide: e.at(l.wides + window*l.tokens*tileWords), wideCount: e.at(l.wideCount + window), partial: buf.partial, arrived: buf.joined, out: buf.attn, heads: int32(g.Heads), kvHeads: int32(g.KVHeads),
		blockSize: int32(l.blockSize), window: int32(g.Windows[i]), scale: softmaxScale(g.SoftmaxScale())}
}

// tail lists the commands from the output of the last layer to the sampled ids on the host.
func (e *Engine) tail(b *builder, tokens, rows int) {
	g, buf, l := e.cfg.Geometry, &e.buf, e.layout.of(tokens)
	added := buf.y
	if e.few(tokens) {
		added = 0
	}
	e.norm(b, "last norm", rows, normArgs{y: added, w: e.weights.norm, pick: e.at(l.last)})
	var plan fewPlan
	if e.few(rows) {
		plan = planChain([]fewSize{headSize(g)}, rows, e.device.few())[0]
	}
	if plan.ring > 0 {
		e.products(b, "LM head", rows, []link{e.head()}, plan)
	} else {
		e.libraryHead(b, rows)
	}
	kernel(b, "argmax", "sampling", [3]int{rows, 1, 1}, 1024, argmaxArgs{logits: buf.logits, slots: e.at(l.rowSlots), sampled: buf.sampled, ids: buf.ids, vocab: int32(g.Vocab)})
	kernel(b, "publish", "ids to the host", [3]int{1, 1, 1}, 256, publishArgs{ids: buf.ids, host: buf.result, step: e.at(l.number), rows: int32(rows), size: int32(l.rows + 1)})
}
