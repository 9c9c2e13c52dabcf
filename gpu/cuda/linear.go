//go:build linux && cgo

package cuda

import "strings"

// few says whether the products of so many tokens are those of chains, which read weights as fast as memory gives them; the library's are faster for more.
func (e *Engine) few(tokens int) bool { return fewServed(e.cfg.Geometry, tokens, e.device.few()) }

// Kinds of products, as linear.cu has them.
const (
	plainProduct int32 = iota
	floatProduct
	addProduct
	gateProduct
	rotateProduct
)

// link is a product of a chain, what it is for, and the cache that it writes to.
type link struct {
	purpose string
	product product
	cache   ptr
}

// fewQKV is the product that a layer begins with. Where it does not rotate, keys must follow.
func (e *Engine) fewQKV(i int) (l link, rotates bool) {
	g, buf, w := e.cfg.Geometry, &e.buf, &e.weights.layers[i]
	size := qkvSize(g)
	l = link{purpose: "qkv", product: product{in: buf.h, squares: buf.squares, parts: e.squareParts(), weights: w.qkv, bias: w.qkvBias, out: buf.qkv, n: int32(size.n), k: int32(size.k)}}
	if i == 0 {
		l.product.parts = 1 // the embedding gives one
	}
	if rotates = w.qNorm == 0 && 2*buf.half == g.HeadDim && g.HeadDim%16 == 0; rotates {
		l.purpose, l.product.kind, l.cache = "qkv, rotation and cache", rotateProduct, e.cache[i]
	}
	return l, rotates
}

// squareParts is how many sums of squares the products give for a row of the residual stream.
func (e *Engine) squareParts() int32 {
	return int32(outSize(e.cfg.Geometry).units())
}

// fewLayer lists a layer whose products are those of chain.cu: attention, and all from there to the next layer's attention.
func (e *Engine) fewLayer(b *builder, i, tokens int) {
	if i == 0 {
		first, rotates := e.fewQKV(0)
		e.chain(b, 0, tokens, first)
		if !rotates {
			e.keys(b, 0, tokens)
		}
	}
	e.attention(b, i, tokens)
	links, rotates := e.fewLinks(i)
	e.chain(b, i, tokens, links...)
	if !rotates {
		e.keys(b, i+1, tokens)
	}
}

// fewLinks are the products from the attention of a layer to that of the next one, if there is one. Where they do not rotate, keys must follow.
func (e *Engine) fewLinks(i int) (links []link, rotates bool) {
	g, buf, w := e.cfg.Geometry, &e.buf, &e.weights.layers[i]
	hidden := int32(g.Hidden)
	out := product{kind: addProduct, in: buf.attn, weights: w.out, bias: w.outBias, out: buf.x, outSquares: buf.squares, norm: w.mlpNorm, normed: buf.h, n: hidden, k: int32(g.QSize())}
	gate := product{kind: gateProduct, in: buf.h, squares: buf.squares, parts: e.squareParts(), weights: w.gateUp, bias: w.gateUpBias, out: buf.act, n: int32(2 * g.Intermediate), k: hidden}
	down := product{kind: addProduct, in: buf.act, weights: w.down, bias: w.downBias, out: buf.x, outSquares: buf.squares, n: hidden, k: int32(g.Intermediate)}
	links = []link{{purpose: "attention output", product: out}, {purpose: "gate and up", product: gate}, {purpose: "down", product: down}}
	if i+1 == len(e.weights.layers) {
		return links, true
	}
	links[2].product.norm, links[2].product.normed = e.weights.layers[i+1].attnNorm, buf.h
	next, rotates := e.fewQKV(i + 1)
	next.purpose = "the next " + next.purpose
	return append(links, next), rotates
}

// head is the product that gives the logits.
func (e *Engine) head() link {
	g := e.cfg.Geometry
	return link{purpose: "LM head", product: product{kind: floatProduct, in: e.buf.h, weights: e.weights.head, out: e.buf.logits, n: int32(g.Vocab), k: int32(g.Hidden)}}
}

// chain lists products of a layer in one kernel, or in one each where together they do not fit.
func (e *Engine) chain(b *builder, i, tokens int, links ...link) {
	for _, p := range planChain(sizes(links), tokens, e.device.few()) {
		n := len(p.products)
		e.products(b, layerName(i, purposes(links[:n])), tokens, links[:n], p)
		links = links[n:]
	}
}

// sizes are those of the products.
func sizes(links []link) []fewSize {
	var list []fewSize
	for _, l := range links {
		list = append(list, fewSize{int(l.product.n), int(l.product.k)})
	}
	return list
}

// purposes says what products are for.
func purposes(links []link) string {
	var list []string
	for _, l := range links {
		list = append(list, l.purpose)
	}
	return strings.Join(list, ", ")
}

// products lists a chain as it is planned.
func (e *Engine) products(b *builder, purpose string, tokens int, links []link, p fewPlan) {
	g, buf, l := e.cfg.Geometry, &e.buf, e.layout.of(tokens)
	args := chainArgs{partial: buf.sums, turns: buf.turns, abort: e.watchdog.at, count: int32(len(links)), tokens: int32(tokens), ring: int32(p.ring), eps: float32(g.NormEps),
		heads: int32(g.Heads), kvHeads: int32(g.KVHeads), blockSize: int32(l.blockSize), half: int32(buf.half), positions: e.at(l.positions), places: e.at(l.places), cosines: buf.cosines, sines: buf.sines}
	for i, x := range links {
		args.products[i] = x.product
		args.products[i].splits = int32(p.splits[i])
		args.cache = max(args.cache, x.cache)
	}
	name, threads := p.kernel()
	if !p.cluster {
		sharedKernel(b, name, purpose, [3]int{p.blocks, 1, 1}, threads, p.shared, args)
		return
	}
	all := chainClusterArgs{chain: args}
	for i, x := range links {
		all.weights[i], all.tokens[i] = e.chains.weights[x.product.weights], e.chains.tokens[chainTokens{x.product.in, p.tiles}]
	}
	clusterKernel(b, name, purpose, [3]int{p.blocks, 1, 1}, threads, p.shared, clusterBlocks, all)
}
