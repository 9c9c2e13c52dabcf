package cpu

import (
	"math"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// Sizes of attention's inner loop.
const (
	attnRows = 32  // query rows (tokens times heads of a group) of one tile; a bigger group is one token's
	attnKeys = 128 // keys between two corrections of the running softmax
)

// attnTile is a run of new tokens of one row that is attended together.
type attnTile struct {
	first, tokens int     // in the step
	position      int     // of the first token
	blocks        []int32 // the row's block table
}

// attnScratch is one worker's memory for a tile: R is its number of query rows.
type attnScratch struct {
	q      []float32 // (R, dim), scaled
	acc    []float32 // (R, valueDim): weighted sum of values so far
	scores []float32 // (R, attnKeys)
	top    []float32 // (R): largest score so far
	sum    []float32 // (R): sum of exp(score - top) so far
}

// attention is causal attention of the new tokens over the paged cache, with a running softmax
// (Milakov and Gimelshein 2018; Dao et al., "FlashAttention", 2022).
type attention struct {
	threads *threads
	task    func(worker, item int) // a.tile, made once
	cache   *cache
	group   int // query heads per KV head
	value   int // leading values of a cached vector that are summed: all of it where keys and values are apart
	tokens  int // tokens per tile
	scale   float32
	scratch []attnScratch

	tiles    []attnTile // of the current step
	layer    int
	window   int       // keys a query sees, itself included; 0 means all
	qkv, out []float32 // (tokens, qkvWidth): queries first, (tokens, outWidth)
	qkvWidth int
	outWidth int
}

func newAttention(t *threads, c *cache, s shard, scale float64, maxTokens int, mla *model.MLA) *attention {
	a := &attention{
		threads: t, cache: c, group: s.group, tokens: max(1, attnRows/s.group), scale: float32(scale),
		scratch: make([]attnScratch, t.workers()), tiles: make([]attnTile, 0, maxTokens),
		value: c.dim, qkvWidth: (s.heads + 2*s.kvHeads) * c.dim, outWidth: s.heads * c.dim,
	}
	if mla != nil {
		a.value, a.qkvWidth, a.outWidth = mla.KVRank, s.heads*c.dim, s.heads*mla.KVRank
	}
	a.task = a.tile
	rows := a.tokens * a.group
	for i := range a.scratch {
		a.scratch[i] = attnScratch{
			q: make([]float32, rows*c.dim), acc: make([]float32, rows*a.value), scores: make([]float32, rows*attnKeys),
			top: make([]float32, rows), sum: make([]float32, rows),
		}
	}
	return a
}

// plan cuts the new tokens of a row into tiles; first is the row's first token in the step.
func (a *attention) plan(first, tokens, position int, blocks []int32) {
	for at := 0; at < tokens; at += a.tokens {
		a.tiles = append(a.tiles, attnTile{first + at, min(a.tokens, tokens-at), position + at, blocks})
	}
}

// run attends all tiles in one layer whose keys and values are in the cache.
func (a *attention) run(layer, window int, qkv, out []float32) {
	a.layer, a.window, a.qkv, a.out = layer, window, qkv, out
	a.threads.run(len(a.tiles)*a.cache.heads, a.task)
}

func (a *attention) tile(worker, item int) {
	t, head := &a.tiles[item/a.cache.heads], item%a.cache.heads
	s := &a.scratch[worker]
	d, rows := a.cache.dim, t.tokens*a.group
	for i := range t.tokens {
		q := a.qkv[(t.first+i)*a.qkvWidth+head*a.group*d:][:a.group*d]
		for j, v := range q {
			s.q[i*a.group*d+j] = v * a.scale
		}
	}
	clear(s.acc[:rows*a.value])
	clear(s.sum[:rows])
	for r := range rows {
		s.top[r] = float32(math.Inf(-1))
	}
	begin, end := 0, t.position+t.tokens
	if a.window > 0 {
		begin = max(0, t.position-a.window+1)
	}
	for ; begin < end; begin += attnKeys {
		a.chunk(t, head, s, begin, min(begin+attnKeys, end))
	}
	for r := range rows {
		o := a.out[(t.first+r/a.group)*a.outWidth+(head*a.group+r%a.group)*a.value:][:a.value]
		for j, v := range s.acc[r*a.value : (r+1)*a.value] {
			o[j] = v / s.sum[r]
		}
	}
}

// chunk adds the keys and values at positions begin to end-1 to a tile's running softmax.
func (a *attention) chunk(t *attnTile, head int, s *attnScratch, begin, end int) {
	d, rows := a.cache.dim, t.tokens*a.group
	for at := begin; at < end; {
		keys, n := a.piece(0, t, head, at, end)
		processor.dot(rows, n, d, s.q, d, keys, d, s.scores[at-begin:], attnKeys)
		at += n
	}
	for r := range rows {
		p := t.position + r/a.group
		from, to := begin, min(end, p+1)
		if a.window > 0 {
			from = min(max(begin, p-a.window+1), end)
		}
		scores := s.scores[r*attnKeys:][:end-begin]
		a.softmax(s, r, scores, from-begin, max(to, begin)-begin)
	}
	for at := begin; at < end; {
		values, n := a.piece(1, t, head, at, end)
		processor.sum(rows, a.value, n, s.scores[at-begin:], attnKeys, values, d, s.acc, a.value)
		at += n
	}
}

// softmax turns the scores of one query row into weights relative to the largest score so far, zero outside
// from to to-1, and corrects what was summed before.
func (a *attention) softmax(s *attnScratch, row int, scores []float32, from, to int) {
	if from >= to {
		clear(scores)
		return
	}
	clear(scores[:from])
	clear(scores[to:])
	before := s.top[row]
	top := max(before, processor.top(scores[from:to]))
	sum := processor.exponentials(scores[from:to], top)
	correct := float32(math.Exp(float64(before - top)))
	s.top[row] = top
	s.sum[row] = s.sum[row]*correct + sum
	if correct != 1 {
		acc := s.acc[row*a.value : (row+1)*a.value]
		for i := range acc {
			acc[i] *= correct
		}
	}
}

// piece is the keys or values (kind 0 or 1) of one head from position at on, up to the end of its block or end.
func (a *attention) piece(kind int, t *attnTile, head, at, end int) ([]float32, int) {
	bs := a.cache.blockSize
	page := a.cache.page(a.layer, kind, t.blocks[at/bs], head)
	n := min(bs-at%bs, end-at)
	return page[at%bs*a.cache.dim:], n
}
