//go:build linux && cgo

package cuda

import (
	"fmt"
	"math"
	"strings"
)

// linearCase is a product of few tokens.
type linearCase struct {
	kind           string // the kernel without its number of tokens
	tokens, splits int
	normed, bias   bool
	ring           int // chunks in a warp's ring
	k, n, groups   int // groups of blocks with the same columns
	heads, kvHeads int // of a rotation
}

// linears runs kinds of products for one and two operands of tokens, with all columns in a block and split unevenly, with every length of the rings.
func (s *stand) linears(kinds ...string) {
	rings := []int{3, 4, 6, 8}
	i := 0
	for _, kind := range kinds {
		for _, tokens := range []int{1, 3, 8, 16} {
			for _, splits := range []int{1, 3} {
				for _, normed := range []bool{false, true} {
					for _, bias := range []bool{false, true} {
						i++
						c := linearCase{kind: kind, tokens: tokens, splits: splits, normed: normed, bias: bias, ring: rings[i%len(rings)], k: 320, n: 86, groups: 1 + i%3, heads: 2, kvHeads: 1}
						if kind == "linear_rotate" {
							c.n = (c.heads + 2*c.kvHeads) * s.head
						}
						s.linear(c)
					}
				}
			}
		}
		if !short() {
			c := linearCase{kind: kind, tokens: 16, splits: 8, normed: true, bias: true, ring: 8, k: 4096, n: 4098, groups: 16, heads: 8, kvHeads: 2}
			if kind == "linear_rotate" {
				c.n = (c.heads + 2*c.kvHeads) * s.head
			}
			s.linear(c)
		}
	}
}

// operand is the twin of what a product multiplies weights with: values, and by how much the kernel's may differ from them.
func (s *stand) operand(c *linearCase, args *linearArgs) (x, doubt []float64) {
	x, doubt = make([]float64, c.tokens*c.k), make([]float64, c.tokens*c.k)
	if !c.normed {
		in := s.normal16(len(x), 1)
		args.in = input(s, "in", in)
		return values16(in), doubt
	}
	const parts = 5
	stream, norm := s.normal32(len(x)), s.normal16(c.k, 1)
	squares := make([]float32, c.tokens*parts)
	values, weights := values32(stream), values16(norm)
	for t := range c.tokens {
		var sums [parts]float64
		for i, v := range values[t*c.k:][:c.k] {
			sums[i%parts] += v * v
		}
		total := 0.0
		for p, sum := range sums {
			squares[t*parts+p] = float32(sum)
			total += float64(float32(sum))
		}
		scale := 1 / math.Sqrt(total/float64(c.k)+float64(args.eps))
		for i := range c.k {
			x[t*c.k+i], doubt[t*c.k+i] = rounded(values[t*c.k+i]*scale*weights[i], normError(parts))
		}
	}
	args.in, args.norm, args.squares, args.parts = input(s, "residual stream", stream), input(s, "norm", norm), input(s, "squares", squares), parts
	return x, doubt
}

// linear runs a product and its twin.
func (s *stand) linear(c linearCase) {
	s.t.Helper()
	s.begin("%d tokens, %d x %d, %d splits, ring of %d, norm %v, bias %v", c.tokens, c.n, c.k, c.splits, c.ring, c.normed, c.bias)
	tiles, units := (c.tokens+7)/8, (c.n+unitRows-1)/unitRows
	if c.kind == "linear_gate" {
		units = (c.n/2 + 7) / 8
	}
	args := linearArgs{tokens: int32(c.tokens), n: int32(c.n), k: int32(c.k), splits: int32(c.splits), ring: int32(c.ring), eps: 1e-5}
	x, doubt := s.operand(&c, &args)
	weights := s.normal16(c.n*c.k, 0.1)
	args.weights = input(s, "weights", weights)
	w, bias := values16(weights), make([]float64, c.n)
	if c.bias {
		b := s.normal16(c.n, 1)
		args.bias, bias = input(s, "bias", b), values16(b)
	}
	// The product of a token and a row of weights, and the bound of its error.
	product := func(token, row int) (v, e float64) {
		sum := 0.0
		for i, a := range x[token*c.k:][:c.k] {
			b := w[row*c.k+i]
			v += a * b
			sum += math.Abs(a * b)
			e += doubt[token*c.k+i] * math.Abs(b)
		}
		v += bias[row]
		return v, e + float64(c.k+c.splits+2)*halfUnit32*(sum+math.Abs(bias[row]))
	}
	var counts, sums func() []uint32
	args.partial, sums = output(s, "partial", blanks32(units*c.splits*tiles*32*4))
	args.arrived, counts = output(s, "arrived", make([]uint32, units))
	run := func() {
		s.t.Helper()
		columns := (c.k/fewColumns + c.splits - 1) / c.splits * fewColumns
		shared := 2*fewStreams*c.ring*unitRows*fewColumns + 2*fewStreams*tiles*32*16 + 2*c.tokens*(columns+fewPadding)
		launch(s, fmt.Sprintf("%s_%d", c.kind, 8*tiles), [3]int{min(c.groups, units) * c.splits, 1, 1}, 32*(fewStreams+2), shared, args)
		s.zero("arrived", counts())
		for i, v := range sums() {
			if (v == blank32) != (c.splits == 1) {
				s.t.Fatalf("%s, %s: partial sum %d is %#x", s.kernel, s.label, i, v)
			}
		}
	}
	switch strings.TrimPrefix(c.kind, "linear_") {
	case "plain", "float":
		want := make([]expected, 0, c.tokens*c.n)
		for t := range c.tokens {
			for r := range c.n {
				v, e := product(t, r)
				if c.kind == "linear_plain" {
					e = stored16(v, e)
				}
				want = append(want, expected{v, e})
			}
		}
		if c.kind == "linear_plain" {
			at, read := output(s, "out", blanks16(len(want)))
			args.out = at
			run()
			s.compare("out", values16(read()), want)
			return
		}
		at, read := output(s, "out", blanks32(len(want)))
		args.out = at
		run()
		s.compare("out", values32(read()), want)
	case "add":
		before := s.normal32(c.tokens * c.n)
		at, read := output(s, "out", before)
		squaresAt, readSquares := output(s, "squares", blanks32(c.tokens*units))
		args.out, args.outSquares = at, squaresAt
		run()
		want, squares := make([]expected, 0, len(before)), make([]expected, c.tokens*units)
		for i, old := range values32(before) {
			v, e := product(i/c.n, i%c.n)
			v += old
			e += 2 * halfUnit32 * (math.Abs(v) + math.Abs(old))
			want = append(want, expected{v, e})
			u := &squares[i/c.n*units+i%c.n/unitRows]
			u.value += v * v
			u.tolerance += 2*math.Abs(v)*e + e*e + 2*unitRows*halfUnit32*v*v
		}
		s.compare("out", values32(read()), want)
		s.compare("squares", values32(readSquares()), squares)
	case "gate":
		at, read := output(s, "out", blanks16(c.tokens*c.n/2))
		args.out = at
		run()
		var want []expected
		for t := range c.tokens {
			for r := range c.n / 2 {
				g, ge := product(t, r)
				u, ue := product(t, c.n/2+r)
				want = append(want, swiglu(g, u, ge, ue))
			}
		}
		s.compare("out", values16(read()), want)
	case "rotate":
		s.rotate(&c, &args, product, run)
	}
}

// swiglu is SiLU of the gate times the other, in bfloat16, from values with errors.
func swiglu(g, u, ge, ue float64) expected {
	silu := g / (1 + math.Exp(-g))
	e := 1.1*ge*math.Abs(u) + math.Abs(silu)*ue + 1.1*ge*ue   // SiLU's slope is at most 1.1
	e += (4*math.Abs(g) + 16) * halfUnit32 * math.Abs(silu*u) // the power of 2, its argument, and the quotient
	return expected{silu * u, stored16(silu*u, e)}
}

// rotate ends a product whose result is rotated and put into the cache.
func (s *stand) rotate(c *linearCase, args *linearArgs, product func(token, row int) (v, e float64), run func()) {
	s.t.Helper()
	const blockSize = 16
	p := s.placement(c.tokens, blockSize, s.head/2)
	args.heads, args.kvHeads, args.blockSize, args.half = int32(c.heads), int32(c.kvHeads), blockSize, int32(s.head/2)
	args.positions, args.places, args.cosines, args.sines = input(s, "positions", p.positions), input(s, "places", p.places), input(s, "cosines", p.cosines), input(s, "sines", p.sines)
	at, read := output(s, "out", blanks16(c.tokens*c.n))
	cacheAt, readCache := output(s, "cache", blanks16(p.cacheValues(c.kvHeads, s.head)))
	args.out, args.cache = at, cacheAt
	run()
	want, cache := make([]expected, c.tokens*c.n), make([]expected, p.cacheValues(c.kvHeads, s.head))
	for i := range want {
		want[i] = untouched
	}
	for i := range cache {
		cache[i] = untouched
	}
	half := s.head / 2
	for t := range c.tokens {
		for head := range c.heads + 2*c.kvHeads {
			to := want[t*c.n+head*s.head:][:s.head]
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

// turned is a cos + b sin in bfloat16, from values with errors.
func turned(a, b, cos, sin, ae, be float64) expected {
	v := a*cos + b*sin
	e := ae*math.Abs(cos) + be*math.Abs(sin) + 2*halfUnit32*(math.Abs(a*cos)+math.Abs(b*sin))
	return expected{v, stored16(v, e)}
}
