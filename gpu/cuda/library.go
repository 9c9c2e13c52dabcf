//go:build linux && cgo

package cuda

import (
	"context"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
)

// libraryRuns is how often a list of products is timed.
const libraryRuns = 3

// Products times cuBLASLt, each kind of product in a graph of its own over all layers. See gpu.Library.
func (e *Engine) Products(ctx context.Context, tokens, rows int) (time.Duration, error) {
	switch {
	case e.broken != nil:
		return 0, e.broken
	case len(e.flight) > 0:
		return 0, errBusy
	case tokens > e.layout.tokens || rows > e.layout.rows:
		return 0, fmt.Errorf("cuda: no step has %d tokens in %d rows", tokens, rows)
	}
	g, buf := e.cfg.Geometry, &e.buf
	qkv, out, gateUp, down := qkvSize(g), outSize(g), gateUpSize(g), downSize(g)
	lists := []func(b *builder, w *layer){
		func(b *builder, w *layer) { b.gemm("qkv", shapeOf(qkv, tokens, w.qkvBias), buf.h, w.qkv, buf.qkv) },
		func(b *builder, w *layer) {
			b.gemm("attention output", shapeOf(out, tokens, w.outBias), buf.attn, w.out, buf.y)
		},
		func(b *builder, w *layer) {
			b.gemm("gate and up", shapeOf(gateUp, tokens, w.gateUpBias), buf.h, w.gateUp, buf.gateUp)
		},
		func(b *builder, w *layer) { b.gemm("down", shapeOf(down, tokens, w.downBias), buf.act, w.down, buf.y) },
	}
	total, err := e.timeList(ctx, func(b *builder) {
		b.gemm("LM head", gemmShape{tokens: rows, n: g.Vocab, k: g.Hidden, float: true}, buf.h, e.weights.head, buf.logits)
	})
	for _, list := range lists {
		if err != nil {
			break
		}
		var took time.Duration
		took, err = e.timeList(ctx, func(b *builder) {
			for i := range e.weights.layers {
				list(b, &e.weights.layers[i])
			}
		})
		total += took
	}
	return total, err
}

// shapeOf is the shape of a product of so many tokens.
func shapeOf(s fewSize, tokens int, bias ptr) gemmShape {
	return gemmShape{tokens: tokens, n: s.n, k: s.k, bias: bias}
}

// timeList is how long a list of commands takes in a graph, the fastest of several runs after one that is not timed.
func (e *Engine) timeList(ctx context.Context, list func(b *builder)) (time.Duration, error) {
	b := &builder{m: e.machine, functions: e.functions, gemms: e.gemms, weights: e.weights}
	if list(b); b.err != nil {
		return 0, e.fail(b.err)
	}
	var err error
	if b.commands, err = e.machine.capture(b.commands, none); err != nil {
		return 0, e.fail(err)
	}
	p, err := b.build()
	if err != nil {
		return 0, e.fail(err)
	}
	defer p.free()
	least := time.Duration(0)
	for i := range libraryRuns + 1 {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("cuda: timing cuBLASLt: %w", context.Cause(ctx))
		}
		begin := gpu.Monotonic()
		if err := p.run(e.machine); err != nil {
			return 0, e.fail(err)
		}
		if err := e.machine.synchronize(); err != nil {
			return 0, e.fail(err)
		}
		if took := time.Duration(gpu.Monotonic() - begin); i > 0 && (least == 0 || took < least) {
			least = took
		}
	}
	return least, nil
}
