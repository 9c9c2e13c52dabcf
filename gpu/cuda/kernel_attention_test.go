//go:build linux && cgo

package cuda

import (
	"math"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/kernels"
)

// attentionCase is a step's attention in one layer.
type attentionCase struct {
	heads, kvHeads, window, lists, blockSize int
	wide                                     bool     // rows of many tokens go to the kernel for them
	steep                                    bool     // scores differ by so much that the largest one is passed again and again
	few                                      bool     // attention_few
	rows                                     [][2]int // keys in the cache before the step, and new tokens
}

// attentions runs rows of one and of several new tokens, on short and long sequences, in one list and cut into pieces, with windows and every form of group.
func (s *stand) attentions() {
	mixed := [][2]int{{0, 1}, {333, 1}, {45, 3}, {0, 20}, {15, 1}}
	for _, groups := range [][2]int{{4, 2}, {5, 1}, {16, 1}, {3, 3}} {
		for _, window := range []int{0, 37} {
			for _, lists := range []int{1, 5} {
				s.attention(attentionCase{heads: groups[0], kvHeads: groups[1], window: window, lists: lists, blockSize: 16 * groups[1], rows: mixed})
			}
		}
	}
	s.attention(attentionCase{heads: 6, kvHeads: 1, lists: 70, blockSize: 16, rows: [][2]int{{4700, 1}}}) // more pieces than are joined at a time
	if !short() {
		s.attention(attentionCase{heads: 16, kvHeads: 4, lists: 33, blockSize: 16, rows: [][2]int{{8000, 1}, {3000, 1}, {0, 1}, {700, 100}}})
	}
	if !tensorHeads(s.head) {
		return
	}
	for _, groups := range [][2]int{{4, 2}, {8, 1}, {3, 3}, {7, 1}} {
		for _, window := range []int{0, 37} {
			for _, lists := range []int{1, 5} {
				s.attention(attentionCase{heads: groups[0], kvHeads: groups[1], window: window, lists: lists, blockSize: 16 * groups[1], few: true, rows: mixed})
			}
		}
	}
	s.attention(attentionCase{heads: 6, kvHeads: 1, lists: 70, blockSize: 16, few: true, rows: [][2]int{{4700, 1}}})
	if !short() {
		s.attention(attentionCase{heads: 32, kvHeads: 8, lists: 16, blockSize: 16, few: true, rows: [][2]int{{1023, 1}}})
		s.attention(attentionCase{heads: 16, kvHeads: 4, lists: 33, blockSize: 32, few: true, rows: [][2]int{{8000, 1}, {3000, 1}, {0, 1}, {700, 3}}})
	}
	s.wideAttentions()
}

// pages is a paged cache; all of it that no sequence has is blank, and so is block 0.
type pages struct {
	c      *attentionCase
	head   int
	values []uint16
	tables []int32 // (rows, width); entries without use name block 0
	width  int
}

func (s *stand) pages(c *attentionCase) *pages {
	p := &pages{c: c, head: s.head}
	blocks := 1
	for _, r := range c.rows {
		n := (r[0] + r[1] + c.blockSize - 1) / c.blockSize
		blocks, p.width = blocks+n, max(p.width, n+1)
	}
	p.values = blanks16(blocks * 2 * c.kvHeads * c.blockSize * s.head)
	p.tables = make([]int32, len(c.rows)*p.width)
	order := s.random.Perm(blocks - 1)
	for i, r := range c.rows {
		for key := range r[0] + r[1] {
			if key%c.blockSize == 0 {
				p.tables[i*p.width+key/c.blockSize], order = int32(1+order[0]), order[1:]
			}
			for kind := range 2 {
				for kv := range c.kvHeads {
					copy(p.at(i, key, kind, kv), s.normal16(s.head, 1))
				}
			}
		}
	}
	return p
}

// at is a key (kind 0) or a value (kind 1) of a row's sequence.
func (p *pages) at(row, key, kind, kv int) []uint16 {
	block := int(p.tables[row*p.width+key/p.c.blockSize])
	return p.values[(((block*2+kind)*p.c.kvHeads+kv)*p.c.blockSize+key%p.c.blockSize)*p.head:][:p.head]
}

func (s *stand) attention(c attentionCase) {
	s.t.Helper()
	s.begin("%d heads of %d on %d, window %d, %d lists, blocks of %d, steep %v, rows %v", c.heads, s.head, c.kvHeads, c.window, c.lists, c.blockSize, c.steep, c.rows)
	p := s.pages(&c)
	step, tokens := &gpu.Step{}, 0
	for i, r := range c.rows {
		step.Rows = append(step.Rows, gpu.Row{Slot: i, Tokens: make([]uint32, r[1]), Computed: r[0], Blocks: p.tables[i*p.width:][:p.width]})
		tokens += r[1]
	}
	all, group := c.heads+2*c.kvHeads, c.heads/c.kvHeads
	qkv := blanks16(tokens * all * s.head) // only queries are read: keys and values are in the cache already
	scale := 1.0
	if c.steep {
		scale = 16
	}
	for t := range tokens {
		copy(qkv[t*all*s.head:], s.normal16(c.heads*s.head, scale))
	}
	least := 0
	if c.wide {
		least = 1
	}
	var w work
	form := cut{lists: c.lists, rows: tileRows, piece: 2 * keyStep, wideMin: least, chained: fewTokens}
	if c.few {
		form.rows, form.piece = fewRows, keyStep
	}
	w.plan(step, group, c.window, form)
	for _, tiles := range [][]tile{w.tiles, w.wides} {
		for i := range tiles {
			tiles[i].row *= int32(p.width) // where its block table begins
		}
	}
	if c.wide != (len(w.wides) > 0) {
		s.t.Fatalf("%s: %d wide tiles", s.label, len(w.wides))
	}
	pieces := 1
	for _, t := range w.tiles {
		if t.items > 1 {
			pieces = max(pieces, int(t.piece+t.items))
		}
	}
	args := attentionArgs{qkv: input(s, "qkv", qkv), cache: input(s, "cache", p.values), tables: input(s, "tables", p.tables), tiles: input(s, "tiles", append([]tile{}, w.tiles...)),
		items: input(s, "items", append([]item{}, w.items...)), starts: input(s, "starts", w.starts), wide: input(s, "wide tiles", append([]tile{}, w.wides...)), wideCount: input(s, "number of wide tiles", []int32{int32(len(w.wides))}),
		heads: int32(c.heads), kvHeads: int32(c.kvHeads), blockSize: int32(c.blockSize), window: int32(c.window), scale: softmaxScale(1 / math.Sqrt(float64(s.head)))}
	args.partial, _ = output(s, "partial", blanks32(pieces*c.kvHeads*tileRows*(s.head+2)))
	var counts func() []uint32
	args.arrived, counts = output(s, "arrived", make([]uint32, pieces*c.kvHeads))
	var want []expected
	first := 0
	for i, r := range c.rows {
		for n := range r[1] {
			for head := range c.heads {
				q := values16(qkv[((first+n)*all+head)*s.head:][:s.head])
				want = append(want, s.attended(p, i, r[0]+n, head/group, q, float64(args.scale))...)
			}
		}
		first += r[1]
	}
	for _, k := range s.wideKernels(&c) {
		var read func() []uint16
		args.out, read = output(s, "out", blanks16(tokens*c.heads*s.head))
		name, shared := "attention", attentionShared(s.head)
		if c.few {
			name, shared = kernels.Few, besideShared(s.head)
		}
		launch(s, name, [3]int{c.lists, c.kvHeads, 1}, attentionThreads, shared, args)
		s.zero("arrived", counts())
		if c.wide {
			s.attendWide(k, &c, len(p.values)/s.head, tokens, args)
		}
		s.compare("out", values16(read()), want)
	}
}

// attended is the attention of one query at a position of a row's sequence.
func (s *stand) attended(p *pages, row, position, kv int, q []float64, scale float64) []expected {
	begin := 0
	if p.c.window > 0 {
		begin = max(0, position-p.c.window+1)
	}
	scores, top, off := make([]float64, position+1-begin), math.Inf(-1), 0.0
	for i := range scores {
		sum, magnitudes := 0.0, 0.0
		for d, v := range values16(p.at(row, begin+i, 0, kv)) {
			sum += q[d] * v
			magnitudes += math.Abs(q[d] * v)
		}
		scores[i] = sum * scale
		top, off = max(top, scores[i]), max(off, float64(s.head+4)*halfUnit32*magnitudes*scale)
	}
	// A weight is off by its score's error, by that of the power of 2 and of its argument, and where it is rounded to bfloat16; the sum of weights by all but the last.
	values, sums, weights, lowest := make([]float64, s.head), make([]float64, s.head), 0.0, 0.0
	for i, score := range scores {
		weight := math.Exp2(score - top)
		weights += weight
		lowest = min(lowest, score-top)
		for d, v := range values16(p.at(row, begin+i, 1, kv)) {
			values[d] += weight * v
			sums[d] += weight * math.Abs(v)
		}
	}
	e := math.Ln2*(off+(2*math.Abs(top)-lowest)*2*halfUnit32) + 8*halfUnit32 + float64(len(scores)+64)*halfUnit32
	share := 2 * e
	if tensorHeads(s.head) {
		share += halfUnit16
	}
	want := make([]expected, s.head)
	for d := range want {
		v, t := values[d]/weights, share*sums[d]/weights
		want[d] = expected{v, stored16(v, t)}
	}
	return want
}
