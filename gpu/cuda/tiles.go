package cuda

import "github.com/fpmrun/fpmrun/gpu"

// Constants of the attention kernel.
const (
	tileRows = 16  // query rows of a tile: new tokens times query heads of a KV head
	keyStep  = 64  // keys between two corrections of the running softmax
	pieceMin = 128 // keys of a piece of a tile, at least
)

// tile is a run of new tokens of one row that is attended together, as the kernel has it.
type tile struct {
	first, tokens int32 // in the step
	position      int32 // of the first token
	table         int32 // row of the block tables
	item, items   int32 // its items
}

// item is a piece of a tile's keys, as the kernel has it.
type item struct {
	tile       int32
	begin, end int32
}

// work is the attention of a step in layers with one window.
type work struct {
	tiles []tile
	items []item
}

// plan lists the work of a step. The keys of long tiles are cut so that about pieces items are there for each KV head; the cut depends on the step
// alone, never on the device's state.
func (w *work) plan(step *gpu.Step, group, window, pieces int) {
	w.tiles, w.items = w.tiles[:0], w.items[:0]
	tokens := max(1, tileRows/group)
	first, keys := 0, 0
	for i := range step.Rows {
		r := &step.Rows[i]
		for at := 0; at < r.New(); at += tokens {
			t := tile{first: int32(first + at), tokens: int32(min(tokens, r.New()-at)), position: int32(r.Computed + at), table: int32(i)}
			begin, end := t.keys(window)
			keys += end - begin
			w.tiles = append(w.tiles, t)
		}
		first += r.New()
	}
	length := max(pieceMin, (keys+pieces-1)/pieces)
	length = (length + keyStep - 1) / keyStep * keyStep
	for i := range w.tiles {
		t := &w.tiles[i]
		t.item = int32(len(w.items))
		begin, end := t.keys(window)
		for ; begin < end; begin += length {
			w.items = append(w.items, item{int32(i), int32(begin), int32(min(begin+length, end))})
		}
		t.items = int32(len(w.items)) - t.item
	}
}

// keys is the range of positions that any of the tile's tokens sees.
func (t *tile) keys(window int) (begin, end int) {
	if window > 0 {
		begin = max(0, int(t.position)-window+1)
	}
	return begin, int(t.position + t.tokens)
}
