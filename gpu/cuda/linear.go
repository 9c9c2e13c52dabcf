//go:build linux && cgo

package cuda

import (
	"fmt"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// few says whether the products of so many tokens are those of linear.cu, which read weights as fast as memory gives them; the library's are faster for more.
func (e *Engine) few(tokens int) bool {
	return fewGeometry(e.cfg.Geometry) && tokens <= fewTokens
}

// fewLayer lists a layer whose products are those of linear.cu.
func (e *Engine) fewLayer(b *builder, i, tokens int) {
	g, buf, l, w := e.cfg.Geometry, &e.buf, &e.layout, &e.weights.layers[i]
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
	e.attention(b, i)
	e.linear(b, "linear_add", layerName(i, "attention output"), linearArgs{in: buf.attn, weights: w.out, bias: w.outBias, out: buf.x, outSquares: buf.squares, tokens: int32(tokens), n: int32(g.Hidden), k: int32(g.QSize())})
	gate := linearArgs{weights: w.gateUp, bias: w.gateUpBias, out: buf.act, tokens: int32(tokens), n: int32(2 * g.Intermediate), k: int32(g.Hidden)}
	what = e.normed(b, i, &gate, "norm of the MLP", w.mlpNorm, parts)
	e.linear(b, "linear_gate", layerName(i, what+"gate and up"), gate)
	e.linear(b, "linear_add", layerName(i, "down"), linearArgs{in: buf.act, weights: w.down, bias: w.downBias, out: buf.x, outSquares: buf.squares, tokens: int32(tokens), n: int32(g.Hidden), k: int32(g.Intermediate)})
}

// normed gives a product the normalised residual stream, and says what the product does beside its own: of a few tokens it normalises them itself; of more that
// would take each block as long as one kernel takes for all of them.
func (e *Engine) normed(b *builder, i int, args *linearArgs, what string, weights ptr, parts int32) string {
	buf := &e.buf
	if args.tokens <= fewNormed {
		args.in, args.norm, args.squares, args.parts = buf.x, weights, buf.squares, parts
		return "norm, "
	}
	args.in = buf.h
	kernel(b, "rms_norm", layerName(i, what), [3]int{int(args.tokens), 1, 1}, 256, normArgs{x: buf.x, w: weights, out: buf.h, hidden: int32(e.cfg.Geometry.Hidden), eps: float32(e.cfg.Geometry.NormEps)})
	return ""
}

// linear adds a product of few tokens.
func (e *Engine) linear(b *builder, kind, purpose string, args linearArgs) {
	f := planFew(int(args.n), int(args.k), int(args.tokens), e.device.Multiprocessors)
	args.splits, args.ring, args.partial, args.arrived, args.eps = int32(f.splits), int32(f.ring), e.buf.sums, e.buf.summed, float32(e.cfg.Geometry.NormEps)
	sharedKernel(b, fmt.Sprintf("%s_%d", kind, 8*f.tiles), purpose, [3]int{f.blocks, 1, 1}, 32*(fewStreams+2), f.shared, args)
}

// Constants of linear.cu.
const (
	fewTokens  = 16
	fewNormed  = 4 // that a product normalises itself
	fewStreams = 8
	fewColumns = 64 // of a chunk
	fewPadding = 8
	unitRows   = 16
)

// sharedMost is the shared memory of a block in bytes, at most.
const sharedMost = 226 << 10

// fewPlan is how a product of few tokens is launched.
type fewPlan struct {
	tiles  int // of 8 tokens
	splits int // of the columns among blocks
	blocks int
	ring   int // chunks in a warp's ring
	shared int // bytes of a block
}

// planFew chooses the split of the columns, by the time that it should take: units of 16 rows should fill all multiprocessors the same number of times. A block takes more than half
// of a multiprocessor's shared memory, so that there is never one with two blocks of a product while another has none: the next kernel's block begins where one ends.
func planFew(n, k, tokens, multiprocessors int) fewPlan {
	const (
		rate = 35   // bytes a nanosecond that a multiprocessor reads: an H200's memory over its multiprocessors
		join = 2000 // nanoseconds until a split unit is joined, which the unit after the next one waits for
		end  = 300  // the same of one that is not split
	)
	units := (n + unitRows - 1) / unitRows
	var best fewPlan
	least := 0.0
	for _, splits := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
		if splits > min(multiprocessors, k/fewColumns) {
			break
		}
		groups := min(multiprocessors/splits, units)
		columns := (k/fewColumns + splits - 1) / splits * fewColumns
		p := fewPlan{tiles: (tokens + 7) / 8, splits: splits, blocks: groups * splits}
		for _, p.ring = range []int{8, 6, 4, 3} {
			p.shared = 2*fewStreams*p.ring*unitRows*fewColumns + 2*fewStreams*p.tiles*32*16 + 2*tokens*(columns+fewPadding)
			if p.shared <= sharedMost {
				break
			}
		}
		unit := max(float64(2*unitRows*columns)/rate, end)
		if splits > 1 {
			unit = max(unit, join)
		}
		cost := float64((units+groups-1)/groups) * unit
		if p.shared <= sharedMost && (least == 0 || cost < least) {
			best, least = p, cost
		}
	}
	best.shared = max(best.shared, sharedMost/2+1024)
	return best
}

// fewGeometry says whether all products of a model have the form that linear.cu takes.
func fewGeometry(g *model.Geometry) bool {
	return g.Hidden%fewColumns == 0 && g.QSize()%fewColumns == 0 && g.Intermediate%fewColumns == 0
}

// fewBuffers is the memory in bytes that products of few tokens need for split columns: the sums of the splits, and a count for each unit.
func fewBuffers(g *model.Geometry, multiprocessors int) (sums, arrivals int64) {
	if !fewGeometry(g) {
		return 0, 0
	}
	for _, m := range [][2]int{{g.QSize() + 2*g.KVSize(), g.Hidden}, {g.Hidden, g.QSize()}, {2 * g.Intermediate, g.Hidden}, {g.Hidden, g.Intermediate}, {g.Vocab, g.Hidden}} {
		units := int64(m[0]+unitRows-1) / unitRows
		for tokens := 1; tokens <= fewTokens; tokens++ {
			if p := planFew(m[0], m[1], tokens, multiprocessors); p.splits > 1 {
				sums = max(sums, units*int64(p.splits*p.tiles)*32*16)
				arrivals = max(arrivals, 4*units)
			}
		}
	}
	return sums, arrivals
}
