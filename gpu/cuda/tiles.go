package cuda

import (
	"slices"

	"github.com/fpmrun/fpmrun/gpu"
)

// Constants of the attention kernels.
const (
	wideRows         = 128 // query rows of a wide tile
	tileRows         = 16  // query rows of a tile: new tokens times query heads of a KV head
	fewRows          = 8   // the same for attention_few
	attentionThreads = 128
	blockKeys        = 16  // keys that lie in one block where the tensor cores attend: block sizes are multiples of it
	keyStep          = 64  // keys that a block takes at a time
	wholeMost        = 128 // keys of a tile that is not cut
	itemCost         = 32  // what an item costs beside its keys, in keys
)

// tile is a run of new tokens of one row that is attended together, as the kernels have it.
type tile struct {
	first, tokens int32 // in the step
	position      int32 // of the first token
	row           int32 // of the step; a kernel has the place of its block table here
	piece, items  int32 // its first item's piece, and how many items it has
	cached        int32 // keys that are in the cache before the step
}

// item is a list's part of a tile, as the kernels have it.
type item struct {
	tile       int32
	begin, end int32 // keys
	piece      int32 // of the partial results, where the tile has several items
}

// cut says how the attention of a step is cut.
type cut struct {
	lists   int // that the keys are shared out among
	rows    int // query rows of a tile, at most
	piece   int // keys of an item whose tile has several, at least, but the last
	wideMin int // wide tiles of a step that are worth it; 0: none is made
	chained int // most tokens of steps whose products are those of chains: they have no wide tiles
}

// work is the attention of a step in layers with one window.
type work struct {
	wides  []tile // of rows with many new tokens, the longest first; their keys are not cut
	tiles  []tile // of the other rows
	items  []item
	starts []int32 // of each list in items, and its end
	tables []int32 // where the block table of each row of the step begins
}

// plan cuts the new tokens of a step into tiles, and shares the keys of those that are not wide out among lists, as evenly as they can be cut. Wide tiles are made
// when there are wideMin of them, so that they keep the device busy. All depends on the step alone, never on the device's state.
func (w *work) plan(step *gpu.Step, group, window int, c cut) {
	w.wides, w.tiles, w.items, w.starts = w.wides[:0], w.tiles[:0], w.items[:0], append(w.starts[:0], 0)
	narrow, wide := max(1, c.rows/group), max(1, wideRows/group)
	many := func(r *gpu.Row) bool { return r.New()*group > tileRows }
	count := 0
	for i := range step.Rows {
		if r := &step.Rows[i]; many(r) {
			count += (r.New() + wide - 1) / wide
		}
	}
	useWide := c.wideMin > 0 && count >= c.wideMin && step.Tokens() > c.chained
	first, cost := 0, (c.lists-1)*itemCost // a list that ends within a tile makes one item more of it
	for i := range step.Rows {
		r := &step.Rows[i]
		isWide := useWide && many(r)
		tokens := narrow
		if isWide {
			tokens = wide
		}
		for at := 0; at < r.New(); at += tokens {
			t := tile{first: int32(first + at), tokens: int32(min(tokens, r.New()-at)), position: int32(r.Computed + at), row: int32(i), cached: int32(r.Computed)}
			if isWide {
				w.wides = append(w.wides, t)
				continue
			}
			begin, end := t.keys(window)
			cost += end - begin + itemCost
			w.tiles = append(w.tiles, t)
		}
		first += r.New()
	}
	slices.SortStableFunc(w.wides, func(a, b tile) int { return int(b.position+b.tokens) - int(a.position+a.tokens) })
	share := (cost + c.lists - 1) / c.lists
	left, pieces := share, 0
	for i := range w.tiles {
		t := &w.tiles[i]
		from := len(w.items)
		for begin, end := t.keys(window); begin < end; {
			n := end - begin
			if len(w.starts) < c.lists && n+itemCost > left { // the last list takes all that is left
				room := (left - itemCost + keyStep - 1) / keyStep * keyStep
				if room <= 0 && left < share {
					w.starts, left = append(w.starts, int32(len(w.items))), share
					continue
				}
				if n > wholeMost {
					n = min(n, max(room, c.piece))
				}
			}
			w.items = append(w.items, item{int32(i), int32(begin), int32(begin + n), 0})
			begin += n
			left -= n + itemCost
		}
		t.items = int32(len(w.items) - from)
		if t.items > 1 {
			t.piece = int32(pieces)
			for j := from; j < len(w.items); j++ {
				w.items[j].piece = int32(pieces)
				pieces++
			}
		}
	}
	for len(w.starts) <= c.lists {
		w.starts = append(w.starts, int32(len(w.items)))
	}
}

// keys is a range of positions with all that any of the tile's tokens sees. It begins at a multiple of 16, so that 16 keys lie in one block.
func (t *tile) keys(window int) (begin, end int) {
	if window > 0 {
		begin = max(0, int(t.position)-window+1) / 16 * 16
	}
	return begin, int(t.position + t.tokens)
}
