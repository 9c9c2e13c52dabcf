//go:build linux && cgo

package cuda

import "fmt"

// few says whether the products of so many tokens are those of linear.cu, which read weights as fast as memory gives them; the library's are faster for more.
func (e *Engine) few(tokens int) bool {
	return fewGeometry(e.cfg.Geometry) && tokens <= fewTokens
}

// fewLayer lists a layer whose products are those of linear.cu.
func (e *Engine) fewLayer(b *builder, i, tokens int) {
	g, buf, l, w := e.cfg.Geometry, &e.buf, e.layout.of(tokens), &e.weights.layers[i]
	parts := int32(g.Hidden+unitRows-1) / unitRows // of the residual stream's squares, as the products give them
	first := parts
	if i == 0 {
		first = 1 // the embedding gives one
	}
	qkv := linearArgs{weights: w.qkv, bias: w.qkvBias, out: buf.qkv, tokens: int32(tokens), n: int32(g.QSize() + 2*g.KVSize()), k: int32(g.Hidden)}
	what := e.normed(b, i, &qkv, "norm", w.attnNorm, first)
	if w.qNorm == 0 && 2*buf.half == g.HeadDim && g.HeadDim%16 == 0 {
		qkv.heads, qkv.kvHeads, qkv.blockSize, qkv.half = int32(g.Heads), int32(g.KVHeads), int32(l.blockSize), int32(buf.half)
		qkv.cache, qkv.positions, qkv.places, qkv.cosines, qkv.sines = e.cache[i], e.at(l.positions), e.at(l.places), buf.cosines, buf.sines
		e.linear(b, "linear_rotate", layerName(i, what+"qkv, rotation and cache"), qkv)
	} else {
		e.linear(b, "linear_plain", layerName(i, what+"qkv"), qkv)
		e.keys(b, i, tokens)
	}
	e.attention(b, i, tokens)
	e.linear(b, "linear_add", layerName(i, "attention output"), linearArgs{in: buf.attn, weights: w.out, bias: w.outBias, out: buf.x, outSquares: buf.squares, tokens: int32(tokens), n: int32(g.Hidden), k: int32(g.QSize())})
	gate := linearArgs{weights: w.gateUp, bias: w.gateUpBias, out: buf.act, tokens: int32(tokens), n: int32(2 * g.Intermediate), k: int32(g.Hidden)}
	what = e.normed(b, i, &gate, "norm of the MLP", w.mlpNorm, parts)
	e.linear(b, "linear_gate", layerName(i, what+"gate and up"), gate)
	e.linear(b, "linear_add", layerName(i, "down"), linearArgs{in: buf.act, weights: w.down, bias: w.downBias, out: buf.x, outSquares: buf.squares, tokens: int32(tokens), n: int32(g.Hidden), k: int32(g.Intermediate)})
}

// normed gives a product the normalised residual stream, and says what the product does beside its own: of a few tokens it normalises them itself; of more that
// would take each block as long as one kernel takes for all of them.
func (e *Engine) normed(b *builder, i int, args *linearArgs, what string, weights ptr, parts int32) string {
	if args.tokens <= fewNormed {
		args.in, args.norm, args.squares, args.parts = e.buf.x, weights, e.buf.squares, parts
		return "norm, "
	}
	args.in = e.buf.h
	e.norm(b, layerName(i, what), int(args.tokens), normArgs{w: weights})
	return ""
}

// linear adds a product of few tokens.
func (e *Engine) linear(b *builder, kind, purpose string, args linearArgs) {
	f := planFew(int(args.n), int(args.k), int(args.tokens), e.device.Multiprocessors)
	args.splits, args.ring, args.partial, args.arrived, args.eps = int32(f.splits), int32(f.ring), e.buf.sums, e.buf.summed, float32(e.cfg.Geometry.NormEps)
	sharedKernel(b, fmt.Sprintf("%s_%d", kind, 8*f.tiles), purpose, [3]int{f.blocks, 1, 1}, 32*(fewStreams+2), f.shared, args)
}
