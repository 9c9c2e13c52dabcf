//go:build linux && cgo

package cuda

import (
	"math"
	"slices"
	"testing"
)

func short() bool { return testing.Short() }

// placement says where tokens are in their sequences and in the cache; the second token of several is padding.
type placement struct {
	blockSize, blocks, half int
	positions, places       []int32
	cosines, sines          []float32 // (positions, half)
}

func (s *stand) placement(tokens, blockSize, half int) *placement {
	const positions = 40
	p := &placement{blockSize: blockSize, blocks: tokens/blockSize + 3, half: half}
	order := s.random.Perm(p.blocks * blockSize)
	for t := range tokens {
		p.positions, p.places = append(p.positions, int32(s.random.IntN(positions))), append(p.places, int32(order[t]))
	}
	if tokens > 1 {
		p.places[1] = -1
	}
	for range positions * half {
		sin, cos := math.Sincos(s.random.Float64() * 6)
		p.cosines, p.sines = append(p.cosines, float32(cos)), append(p.sines, float32(sin))
	}
	return p
}

func (p *placement) cacheValues(kvHeads, head int) int {
	return p.blocks * 2 * kvHeads * p.blockSize * head
}

func (p *placement) angle(token, pair int) (cos, sin float64) {
	at := int(p.positions[token])*p.half + pair
	return float64(p.cosines[at]), float64(p.sines[at])
}

// place is where a token's key or value is in the cache, nil for padding; index counts the heads of keys and then those of values.
func (p *placement) place(cache []expected, token, index, kvHeads, head int) []expected {
	at := int(p.places[token])
	if at < 0 {
		return nil
	}
	return cache[((at/p.blockSize*2*kvHeads+index)*p.blockSize+at%p.blockSize)*head:][:head]
}

// keysCases rotates all of a head and a part of it, with norms of heads and without, and puts keys and values into the cache.
func (s *stand) keysCases() {
	for _, half := range []int{s.head / 2, s.head / 4} {
		for _, normed := range []bool{false, true} {
			s.keysCase(3, 5, 2, half, normed)
		}
	}
	if !short() {
		s.keysCase(500, 32, 8, s.head/2, true)
	}
}

func (s *stand) keysCase(tokens, heads, kvHeads, half int, normed bool) {
	s.t.Helper()
	s.begin("%d tokens, %d and %d heads of %d, %d pairs, norms %v", tokens, heads, kvHeads, s.head, half, normed)
	const blockSize, eps = 16, 1e-5
	p := s.placement(tokens, blockSize, half)
	all := heads + 2*kvHeads
	qkv := s.normal16(tokens*all*s.head, 1)
	args := keysArgs{positions: input(s, "positions", p.positions), places: input(s, "places", p.places), cosines: input(s, "cosines", p.cosines), sines: input(s, "sines", p.sines),
		heads: int32(heads), kvHeads: int32(kvHeads), blockSize: blockSize, half: int32(half), tokens: int32(tokens), eps: eps}
	var norms [2][]float64
	if normed {
		q, k := s.normal16(s.head, 1), s.normal16(s.head, 1)
		args.qNorm, args.kNorm, norms = input(s, "norm of queries", q), input(s, "norm of keys", k), [2][]float64{values16(q), values16(k)}
	}
	at, read := output(s, "qkv", qkv)
	cacheAt, readCache := output(s, "cache", blanks16(p.cacheValues(kvHeads, s.head)))
	args.qkv, args.cache = at, cacheAt
	launch(s, "keys", [3]int{(tokens*all + 7) / 8, 1, 1}, 256, 0, args)

	want, cache := make([]expected, len(qkv)), make([]expected, p.cacheValues(kvHeads, s.head))
	for i, v := range values16(qkv) {
		want[i].value = v // keys and values stay where they come from
	}
	for i := range cache {
		cache[i] = untouched
	}
	for t := range tokens {
		for head := range all {
			v, doubt := values16(qkv[(t*all+head)*s.head:][:s.head]), make([]float64, s.head)
			to := want[(t*all+head)*s.head:][:s.head]
			if head >= heads {
				if to = p.place(cache, t, head-heads, kvHeads, s.head); to == nil {
					continue
				}
			}
			if head >= heads+kvHeads {
				for i := range v {
					to[i] = expected{value: v[i]}
				}
				continue
			}
			if normed {
				w, squares := norms[0], 0.0
				if head >= heads {
					w = norms[1]
				}
				for _, x := range v {
					squares += x * x
				}
				scale := 1 / math.Sqrt(squares/float64(s.head)+eps)
				for i := range v {
					v[i], doubt[i] = rounded(v[i]*scale*w[i], normError(s.head))
				}
			}
			for i := range v {
				to[i] = expected{v[i], doubt[i]}
			}
			for i := range half {
				cos, sin := p.angle(t, i)
				to[i], to[half+i] = turned(v[i], -v[half+i], cos, sin, doubt[i], doubt[half+i]), turned(v[half+i], v[i], cos, sin, doubt[half+i], doubt[i])
			}
		}
	}
	s.compare("qkv", values16(read()), want)
	s.compare("cache", values16(readCache()), cache)
}

// norms runs the RMSNorm of the residual stream, narrow and wider than a block keeps, with what is added before it and with picked tokens.
func (s *stand) norms() {
	for _, hidden := range []int{132, 8 * 256 * 4, 9000} {
		for _, added := range []bool{false, true} {
			for _, pick := range [][]int32{nil, {4, 0, 4}} {
				s.norm(5, hidden, added, pick)
			}
		}
	}
}

func (s *stand) norm(tokens, hidden int, added bool, pick []int32) {
	s.t.Helper()
	s.begin("%d tokens of %d, added %v, picked %v", tokens, hidden, added, pick)
	const eps = 1e-5
	stream, weights := s.normal32(tokens*hidden), s.normal16(hidden, 1)
	x, w := values32(stream), values16(weights)
	args := normArgs{w: input(s, "weights", weights), pick: input(s, "pick", pick), hidden: int32(hidden), eps: eps}
	if added {
		y := s.normal16(tokens*hidden, 1)
		args.y = input(s, "y", y)
		for i, v := range values16(y) {
			x[i] += v
		}
	}
	blocks := pick
	if pick == nil {
		for t := range tokens {
			blocks = append(blocks, int32(t))
		}
	}
	at, read := output(s, "x", stream)
	outAt, readOut := output(s, "out", blanks16(len(blocks)*hidden))
	args.x, args.out = at, outAt
	launch(s, "rms_norm", [3]int{len(blocks), 1, 1}, 256, 0, args)
	after := make([]expected, len(x))
	for i, old := range values32(stream) {
		if after[i].value = old; added && pick == nil {
			after[i] = expected{x[i], halfUnit32 * math.Abs(x[i])}
		}
	}
	s.compare("x", values32(read()), after)
	want := make([]expected, 0, len(blocks)*hidden)
	for _, t := range blocks {
		row, squares := x[int(t)*hidden:][:hidden], 0.0
		for _, v := range row {
			squares += v * v
		}
		scale := 1 / math.Sqrt(squares/float64(hidden)+eps)
		for i, v := range row {
			v *= scale * w[i]
			want = append(want, expected{v, stored16(v, normError(hidden)*math.Abs(v))})
		}
	}
	s.compare("out", values16(readOut()), want)
}

// gates runs SwiGLU within a block and over its end.
func (s *stand) gates() {
	for _, width := range []int{2, 192, 2058} {
		const tokens = 3
		s.begin("%d tokens of %d", tokens, width)
		in := s.normal16(tokens*2*width, 4)
		at, read := output(s, "out", blanks16(tokens*width))
		launch(s, "gate", [3]int{(width + 2047) / 2048, tokens, 1}, 256, 0, gateArgs{in: input(s, "in", in), out: at, width: int32(width)})
		var want []expected
		for t := range tokens {
			row := values16(in[t*2*width:][:2*width])
			for i := range width {
				want = append(want, swiglu(row[i], row[width+i], 0, 0))
			}
		}
		s.compare("out", values16(read()), want)
	}
}

// embeddings looks ids up, given ones and those that were sampled last.
func (s *stand) embeddings() {
	const vocab, hidden = 11, 300
	ids, slots, sampled := []uint32{10, sampledID, 0, sampledID}, []int32{0, 2, 1, 0}, []uint32{7, 99, 3}
	s.begin("%d tokens of %d", len(ids), hidden)
	table := s.normal16(vocab*hidden, 1)
	at, read := output(s, "x", blanks32(len(ids)*hidden))
	squaresAt, readSquares := output(s, "squares", blanks32(len(ids)))
	norm := s.normal16(hidden, 1)
	normedAt, readNormed := output(s, "normed", blanks16(len(ids)*hidden))
	launch(s, "embed", [3]int{len(ids), 1, 1}, 256, 0, embedArgs{ids: input(s, "ids", ids), slots: input(s, "slots", slots), sampled: input(s, "sampled", sampled),
		table: input(s, "table", table), x: at, squares: squaresAt, norm: input(s, "norm", norm), normed: normedAt, hidden: hidden})
	var want, squares, normed []expected
	for _, id := range []int{10, 3, 0, 7} {
		sum := 0.0
		for i, v := range values16(table[id*hidden:][:hidden]) {
			want = append(want, expected{value: v})
			w := v * value16(norm[i])
			normed = append(normed, expected{w, stored16(w, halfUnit32*math.Abs(w))})
			sum += v * v
		}
		squares = append(squares, expected{sum, hidden * halfUnit32 * sum})
	}
	s.compare("x", values32(read()), want)
	s.compare("normed", values16(readNormed()), normed)
	s.compare("squares", values32(readSquares()), squares)
}

// argmaxes samples: the largest logit in each part of a row, the lowest id of equal ones, rows without a number, and padding.
func (s *stand) argmaxes() {
	nan, infinity := math.Float32bits(float32(math.NaN())), math.Float32bits(float32(math.Inf(1)))
	for _, vocab := range []int{5, 307, 1024, 20000} {
		s.begin("%d logits", vocab)
		last := vocab - 1
		var logits, want []uint32
		row := func(id int, set map[int]uint32) {
			l := s.normal32(vocab)
			for i, v := range set {
				l[i] = v
			}
			logits, want = append(logits, l...), append(want, uint32(id))
		}
		top := math.Float32bits(9)
		row(0, map[int]uint32{0: top})
		row(last, map[int]uint32{last: top})
		row(1, map[int]uint32{last: top, 1: top, vocab / 2: top})
		row(vocab/2, map[int]uint32{last: top, vocab / 2: top})
		row(last-1, map[int]uint32{0: nan, last: nan, last - 1: infinity, 1: top})
		logits, want = append(logits, slices.Repeat([]uint32{nan}, vocab)...), append(want, 0)
		logits, want = append(logits, slices.Repeat([]uint32{math.Float32bits(-3)}, vocab)...), append(want, 0)
		slots := []int32{3, 0, -1, 7, 1, 5, -1}
		at, read := output(s, "ids", blanks32(len(want)))
		sampledAt, readSampled := output(s, "sampled", blanks32(8))
		launch(s, "argmax", [3]int{len(want), 1, 1}, 1024, 0, argmaxArgs{logits: input(s, "logits", logits), slots: input(s, "slots", slots), sampled: sampledAt, ids: at, vocab: int32(vocab)})
		if got := read(); !slices.Equal(got, want) {
			s.t.Errorf("argmax, %s: got %v, want %v", s.label, got, want)
		}
		sampled := blanks32(8)
		for i, slot := range slots {
			if slot >= 0 {
				sampled[slot] = want[i]
			}
		}
		if got := readSampled(); !slices.Equal(got, sampled) {
			s.t.Errorf("argmax, %s: slots have %v, want %v", s.label, got, sampled)
		}
		s.worst["argmax"].values += len(want)
	}
}
