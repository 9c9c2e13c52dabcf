//go:build linux && cgo

package cuda

import "math"

// chainCase is a chain of products of few tokens.
type chainCase struct {
	tokens, ring, blocks, k int // ring 0: the tokens are held in registers; k is the number of columns of the first product
	links                   []linkCase
	heads, kvHeads          int
	clusters                int // of blocks, which share the columns; 0: blocks are alone
}

// linkCase is a product of a chain. It takes what the one before it gives, if there is one.
type linkCase struct {
	kind, n, splits int
	scaled, bias    bool // scaled: the first product's rows are divided by a norm
}

// ran is a product with what its twin needs.
type ran struct {
	linkCase
	k           int
	in          func() []uint16
	squares     func() []float64 // nil where in is not scaled
	w, bias     []float64
	check       func()
	out         func() []uint16  // that the next product takes
	nextSquares func() []float64 // the same
	parts       int
}

// chains runs single products of every kind with every length of the rings, all columns in a block and split unevenly, and then chains of them, one after the other on the same word of
// the barrier between products.
func (s *stand) chains(rotate bool) {
	kinds := []int{int(plainProduct), int(floatProduct), int(addProduct), int(gateProduct)}
	if rotate {
		kinds = []int{int(rotateProduct)}
	}
	turns := uint32(0)
	i := 0
	for _, kind := range kinds {
		for _, tokens := range []int{1, 3, 8, 16} {
			for _, splits := range []int{1, 3} {
				for _, bias := range []bool{false, true} {
					i++
					l := linkCase{kind: kind, n: 86, splits: splits, scaled: i%3 > 0, bias: bias}
					for _, ring := range s.rings(i) {
						s.chain(chainCase{tokens: tokens, ring: ring, blocks: min(6, (1+i%3)*splits), k: 320, links: []linkCase{l}, heads: 2, kvHeads: 1}, &turns)
					}
				}
			}
		}
	}
	if rotate {
		return
	}
	add, gate, plain, float := int(addProduct), int(gateProduct), int(plainProduct), int(floatProduct)
	for i, links := range [][]linkCase{
		{{add, 128, 1, false, true}, {gate, 256, 1, true, false}},
		{{add, 128, 1, false, false}, {gate, 384, 1, true, true}, {add, 192, 3, false, false}},
		{{add, 192, 2, true, false}, {gate, 256, 1, true, false}, {add, 128, 2, false, true}, {plain, 150, 1, true, true}},
		{{add, 64, 1, false, false}, {gate, 640, 1, true, false}, {add, 128, 5, false, false}, {float, 70, 2, true, false}},
		{{plain, 64, 1, false, false}, {plain, 16, 1, false, false}}, // fewer units than blocks
	} {
		for _, tokens := range []int{1, 5, 8, 13, 16} {
			for _, blocks := range []int{1, 2, 3, 5} {
				fits := true
				for _, l := range links {
					fits = fits && l.splits <= blocks
				}
				if fits && (!short() || (tokens+blocks+i)%3 == 0) {
					for _, ring := range s.rings(i + tokens + blocks) {
						s.chain(chainCase{tokens: tokens, ring: ring, blocks: blocks, k: 192, links: links}, &turns)
					}
				}
			}
		}
	}
	for i, k := range []int{64 * fewStreams * heldTurns, 64*fewStreams*3 - 64, 64 * fewStreams * 5} { // columns of several chunks of a warp
		for _, tokens := range []int{2, 7, 12, 16} {
			for _, ring := range s.rings(i) {
				if fewFits(ring == 0, tokens, ring, k) {
					s.chain(chainCase{tokens: tokens, ring: ring, blocks: 3, k: k, links: []linkCase{{plain, 1088, 1, true, false}, {add, 64, 1, false, true}}}, &turns)
				}
			}
		}
	}
}

// rings are the ring for a case by its number, beside tokens in shared memory, and 0 if the device has the kernels that hold them in registers.
func (s *stand) rings(i int) []int {
	rings := []int{fewRings[i%len(fewRings)]}
	if _, held := s.functions["chain_held_8"]; held {
		rings = append(rings, 0)
	}
	return rings
}

// chain runs a chain. Each product is compared with its twin on what the kernel gave it.
func (s *stand) chain(c chainCase, turns *uint32) {
	s.t.Helper()
	s.begin("%d tokens, %d columns, %+v, ring of %d, %d blocks, %d clusters", c.tokens, c.k, c.links, c.ring, c.blocks, c.clusters)
	all := chainClusterArgs{chain: chainArgs{count: int32(len(c.links)), tokens: int32(c.tokens), ring: int32(c.ring), eps: 1e-5}}
	args := &all.chain
	tiles, columns, chunks, sums := (c.tokens+7)/8, 0, 0, 0
	if c.clusters > 0 {
		tiles = clusterTiles(c.tokens)
	}
	var list []*ran
	k := c.k
	for i, l := range c.links {
		if l.kind == int(rotateProduct) {
			l.n = (c.heads + 2*c.kvHeads) * s.head
		}
		r := &ran{linkCase: l, k: k}
		p := &args.products[i]
		p.kind, p.n, p.k, p.splits = int32(l.kind), int32(l.n), int32(k), int32(l.splits)
		s.operand(&c, r, list, p)
		weights := s.normal16(l.n*k, 0.1)
		p.weights, r.w, r.bias = input(s, "weights", weights), values16(weights), make([]float64, l.n)
		if l.bias {
			b := s.normal16(l.n, 1)
			p.bias, r.bias = input(s, "bias", b), values16(b)
		}
		s.result(&c, r, args, p)
		if c.clusters > 0 {
			s.describe(&c, r, i, &all)
		}
		list = append(list, r)
		columns = max(columns, (k/fewColumns+l.splits-1)/l.splits*fewColumns)
		chunks = max(chunks, fewSize{l.n, k}.clusterChunks(l.splits))
		sums = max(sums, r.units()*l.splits*tiles*32*4)
		if k = l.n; l.kind == int(gateProduct) {
			k = l.n / 2
		}
	}
	var partial, word func() []uint32
	args.partial, partial = output(s, "partial", blanks32(sums))
	args.turns, word = output(s, "turns", []uint32{*turns})
	args.abort = input(s, "abort", []uint32{0})
	name, threads := (&fewPlan{tiles: tiles, held: c.ring == 0, cluster: c.clusters > 0}).kernel()
	switch {
	case c.clusters > 0:
		launchClusters(s, name, [3]int{clusterBlocks * c.clusters, 1, 1}, threads, clusterShared(tiles, c.ring, chunks), clusterBlocks, all)
	case c.ring == 0:
		c.ring, _ = heldForm(tiles)
		launch(s, name, [3]int{c.blocks, 1, 1}, threads, fewShared(c.tokens, c.ring, 0), *args)
	default:
		launch(s, name, [3]int{c.blocks, 1, 1}, threads, fewShared(c.tokens, c.ring, columns), *args)
	}
	if want := *turns ^ uint32(len(c.links)-1)<<31; word()[0] != want {
		s.t.Errorf("%s, %s: the word of the barrier is %#x, want %#x", s.kernel, s.label, word()[0], want)
	}
	*turns = word()[0]
	for i, v := range partial() {
		if v != blank32 {
			s.t.Errorf("%s, %s: word %d of the partial sums is %#x after the kernel", s.kernel, s.label, i, v)
			break
		}
	}
	for _, r := range list {
		r.check()
	}
}

func (r *ran) units() int { return (r.n + unitRows - 1) / unitRows }

// operand gives a product its tokens.
func (s *stand) operand(c *chainCase, r *ran, before []*ran, p *product) {
	if len(before) > 0 {
		from := before[len(before)-1]
		r.in = from.out
		if r.scaled {
			r.squares, r.parts = from.nextSquares, from.units()
		}
		return // the one before filled in p
	}
	in := s.normal16(c.tokens*r.k, 1)
	p.in, r.in = input(s, "in", in), func() []uint16 { return in }
	if r.scaled {
		r.parts = 5
		squares := make([]float32, c.tokens*r.parts)
		var values []float64
		for i := range squares {
			squares[i] = s.random.Float32() * float32(r.k)
			values = append(values, float64(squares[i]))
		}
		p.squares, p.parts, r.squares = input(s, "squares", squares), int32(r.parts), func() []float64 { return values }
	}
}

// product gives the twin's product of a token and a row of weights, and the bound of its error.
func (r *ran) product(tokens int, eps float64) func(token, row int) (v, e float64) {
	x, scales := values16(r.in()), make([]float64, tokens)
	for t := range scales {
		if scales[t] = 1; r.squares != nil {
			total := 0.0
			for _, v := range r.squares()[t*r.parts:][:r.parts] {
				total += v
			}
			scales[t] = 1 / math.Sqrt(total/float64(r.k)+eps)
		}
	}
	return func(token, row int) (v, e float64) {
		sum := 0.0
		for i, a := range x[token*r.k:][:r.k] {
			b := a * r.w[row*r.k+i]
			v += b
			sum += math.Abs(b)
		}
		v, sum = v*scales[token], sum*scales[token]
		return v + r.bias[row], float64(r.k+r.splits+2)*halfUnit32*(sum+math.Abs(r.bias[row])) + normError(r.parts)*math.Abs(v)
	}
}

// result makes the outputs of a product, hands them to the next one, and says how they are checked.
func (s *stand) result(c *chainCase, r *ran, args *chainArgs, p *product) {
	const eps = 1e-5
	index := 0
	for &args.products[index] != p {
		index++
	}
	next := &product{}
	if index+1 < len(c.links) {
		next = &args.products[index+1]
	}
	switch int32(r.kind) {
	case plainProduct:
		at, read := output(s, "out", blanks16(c.tokens*r.n))
		p.out, next.in, r.out = at, at, read
		r.check = func() {
			of := r.product(c.tokens, eps)
			var want []expected
			for i := range c.tokens * r.n {
				v, e := of(i/r.n, i%r.n)
				want = append(want, expected{v, stored16(v, e)})
			}
			s.compare("out", values16(read()), want)
		}
	case floatProduct:
		at, read := output(s, "out", blanks32(c.tokens*r.n))
		p.out = at
		r.check = func() {
			of := r.product(c.tokens, eps)
			var want []expected
			for i := range c.tokens * r.n {
				v, e := of(i/r.n, i%r.n)
				want = append(want, expected{v, e})
			}
			s.compare("out", values32(read()), want)
		}
	case addProduct:
		s.added(c, r, p, next, eps)
	case gateProduct:
		at, read := output(s, "out", blanks16(c.tokens*r.n/2))
		p.out, next.in, r.out = at, at, read
		r.check = func() {
			of := r.product(c.tokens, eps)
			var want []expected
			for i := range c.tokens * r.n / 2 {
				g, ge := of(i/(r.n/2), i%(r.n/2))
				u, ue := of(i/(r.n/2), r.n/2+i%(r.n/2))
				want = append(want, swiglu(g, u, ge, ue))
			}
			s.compare("out", values16(read()), want)
		}
	case rotateProduct:
		s.rotate(c, r, args, p, eps)
	}
}

// added is result of a product that is added to the residual stream.
func (s *stand) added(c *chainCase, r *ran, p, next *product, eps float64) {
	before, norm := s.normal32(c.tokens*r.n), s.normal16(r.n, 1)
	at, read := output(s, "out", before)
	squaresAt, readSquares := output(s, "squares", blanks32(c.tokens*r.units()))
	normedAt, readNormed := output(s, "normed", blanks16(c.tokens*r.n))
	p.out, p.outSquares, p.norm, p.normed = at, squaresAt, input(s, "norm", norm), normedAt
	next.in, next.squares, next.parts = normedAt, squaresAt, int32(r.units())
	r.out, r.nextSquares = readNormed, func() []float64 { return values32(readSquares()) }
	r.check = func() {
		of := r.product(c.tokens, eps)
		var want, normed []expected
		squares := make([]expected, c.tokens*r.units())
		weights := values16(norm)
		for i, old := range values32(before) {
			v, e := of(i/r.n, i%r.n)
			v += old
			e += 2 * halfUnit32 * (math.Abs(v) + math.Abs(old))
			want = append(want, expected{v, e})
			w := weights[i%r.n]
			normed = append(normed, expected{v * w, stored16(v*w, e*math.Abs(w)+halfUnit32*math.Abs(v*w))})
			u := &squares[i/r.n*r.units()+i%r.n/unitRows]
			u.value += v * v
			u.tolerance += 2*math.Abs(v)*e + e*e + 2*unitRows*halfUnit32*v*v
		}
		s.compare("out", values32(read()), want)
		s.compare("normed", values16(readNormed()), normed)
		s.compare("squares", values32(readSquares()), squares)
	}
}

// swiglu is SiLU of the gate times the other, in bfloat16, from values with errors.
func swiglu(g, u, ge, ue float64) expected {
	silu := g / (1 + math.Exp(-g))
	e := 1.1*ge*math.Abs(u) + math.Abs(silu)*ue + 1.1*ge*ue   // SiLU's slope is at most 1.1
	e += (4*math.Abs(g) + 16) * halfUnit32 * math.Abs(silu*u) // the power of 2, its argument, and the quotient
	return expected{silu * u, stored16(silu*u, e)}
}

// rotate is result of a product that is rotated and put into the cache.
func (s *stand) rotate(c *chainCase, r *ran, args *chainArgs, to *product, eps float64) {
	const blockSize = 16
	p := s.placement(c.tokens, blockSize, s.head/2)
	args.heads, args.kvHeads, args.blockSize, args.half = int32(c.heads), int32(c.kvHeads), blockSize, int32(s.head/2)
	args.positions, args.places, args.cosines, args.sines = input(s, "positions", p.positions), input(s, "places", p.places), input(s, "cosines", p.cosines), input(s, "sines", p.sines)
	at, read := output(s, "out", blanks16(c.tokens*r.n))
	cacheAt, readCache := output(s, "cache", blanks16(p.cacheValues(c.kvHeads, s.head)))
	to.out, args.cache = at, cacheAt
	r.check = func() {
		product := r.product(c.tokens, eps)
		want, cache := make([]expected, c.tokens*r.n), make([]expected, p.cacheValues(c.kvHeads, s.head))
		for i := range want {
			want[i] = untouched
		}
		for i := range cache {
			cache[i] = untouched
		}
		half := s.head / 2
		for t := range c.tokens {
			for head := range c.heads + 2*c.kvHeads {
				to := want[t*r.n+head*s.head:][:s.head]
				if head >= c.heads {
					if to = p.place(cache, t, head-c.heads, c.kvHeads, s.head); to == nil {
						continue
					}
				}
				for i := range half {
					a, ae := product(t, head*s.head+i)
					b, be := product(t, head*s.head+half+i)
					cos, sin := p.angle(t, i)
					if head >= c.heads+c.kvHeads {
						cos, sin = 1, 0
					}
					to[i], to[half+i] = turned(a, -b, cos, sin, ae, be), turned(b, a, cos, sin, be, ae)
				}
			}
		}
		s.compare("out", values16(read()), want)
		s.compare("cache", values16(readCache()), cache)
	}
}

// turned is a cos + b sin in bfloat16, from values with errors.
func turned(a, b, cos, sin, ae, be float64) expected {
	v := a*cos + b*sin
	e := ae*math.Abs(cos) + be*math.Abs(sin) + 2*halfUnit32*(math.Abs(a*cos)+math.Abs(b*sin))
	return expected{v, stored16(v, e)}
}
