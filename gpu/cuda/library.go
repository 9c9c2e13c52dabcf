//go:build linux && cgo

package cuda

import (
	"context"
	"fmt"
	"time"
)

// library lists a product of a layer by cuBLASLt.
func (e *Engine) library(b *builder, i int, what string, tokens int, s fewSize, bias, in, weights, out ptr) {
	b.gemm(layerName(i, what), gemmShape{tokens: tokens, n: s.n, k: s.k, bias: bias}, in, weights, out)
}

func (e *Engine) libraryQKV(b *builder, i, tokens int) {
	w := &e.weights.layers[i]
	e.library(b, i, "qkv", tokens, qkvSize(e.cfg.Geometry), w.qkvBias, e.buf.h, w.qkv, e.buf.qkv)
}

func (e *Engine) libraryOut(b *builder, i, tokens int) {
	w := &e.weights.layers[i]
	e.library(b, i, "attention output", tokens, outSize(e.cfg.Geometry), w.outBias, e.buf.attn, w.out, e.buf.y)
}

func (e *Engine) libraryGateUp(b *builder, i, tokens int) {
	w := &e.weights.layers[i]
	e.library(b, i, "gate and up", tokens, gateUpSize(e.cfg.Geometry), w.gateUpBias, e.buf.h, w.gateUp, e.buf.gateUp)
}

func (e *Engine) libraryDown(b *builder, i, tokens int) {
	w := &e.weights.layers[i]
	e.library(b, i, "down", tokens, downSize(e.cfg.Geometry), w.downBias, e.buf.act, w.down, e.buf.y)
}

func (e *Engine) libraryHead(b *builder, rows int) {
	head := headSize(e.cfg.Geometry)
	b.gemm("LM head", gemmShape{tokens: rows, n: head.n, k: head.k, float: true}, e.buf.h, e.weights.head, e.buf.logits)
}

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
	total, err := e.timeList(ctx, func(b *builder) { e.libraryHead(b, rows) })
	if err != nil {
		return 0, err
	}
	for _, product := range []func(b *builder, i, tokens int){e.libraryQKV, e.libraryOut, e.libraryGateUp, e.libraryDown} {
		took, err := e.timeList(ctx, func(b *builder) {
			for i := range e.weights.layers {
				product(b, i, tokens)
			}
		})
		if err != nil {
			return 0, err
		}
		total += took
	}
	return total, nil
}

// timeList is how long a list of commands takes in a graph.
func (e *Engine) timeList(ctx context.Context, list func(b *builder)) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("cuda: timing cuBLASLt: %w", context.Cause(ctx))
	}
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
	took, err := e.machine.trial(p)
	if err != nil {
		return 0, e.fail(err)
	}
	return took, nil
}
