package cuda

import (
	"slices"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// sampledID stands for the id that was sampled last in the token's slot.
const sampledID = 0xffffffff

// shape is what a program is made for.
type shape struct {
	mode   gpu.GraphMode
	tokens int // that are computed, padding included
	rows   int // that are sampled, padding included
}

// layout says where the parts of the step structure are, in words of 4 bytes. The structure is all that changes from step to step: the host
// fills it in pinned memory and copies it to the device before the step's commands run. Programs of few tokens have a small one, for the device waits for the copy.
type layout struct {
	windows   []int // distinct windows of the layers; 0 is all keys
	cut             // of the attention
	beside    *cut  // that of steps of heldFrom to besideMost tokens, if it is another one
	tokens    int   // that a step computes, padding included
	rows      int   // most that a step samples, padding included
	width     int   // blocks in a row of the block tables
	blockSize int

	starts    int // (windows, lists + 1)
	number    int // of the step
	ids       int // (tokens)
	positions int // (tokens)
	places    int // (tokens): block times block size plus place; -1 for padding
	slots     int // (tokens): slot of the token's row
	last      int // (rows): last token of each row
	rowSlots  int // (rows); -1 for padding
	tiles     int // (windows, tokens, 7)
	items     int // (windows, tokens + lists, 4)
	wides     int // (windows, tokens, 7)
	wideCount int // (windows)
	tables    int // block tables of the rows, one behind the other, up to (rows, width) words; last, since only what is in use is copied
	words     int
}

// windows are the distinct windows of a model's layers.
func windows(g *model.Geometry) []int { return slices.Compact(slices.Sorted(slices.Values(g.Windows))) }

// padded is a largest number of tokens or rows with the padding of the graph that covers it.
func padded(cfg *gpu.Config, most int) int {
	if cfg.Graph.PrefillMode() == gpu.GraphNone && cfg.Graph.DecodeMode() == gpu.GraphNone {
		return most
	}
	return max(most, cfg.Graph.Capture(most))
}

func newLayout(cfg *gpu.Config, windows []int, c cut) layout {
	l := layout{windows: windows, cut: c, tokens: padded(cfg, cfg.MaxBatchedTokens), rows: padded(cfg, cfg.MaxSeqs), blockSize: cfg.BlockSize,
		width: (cfg.MaxModelLen + cfg.BlockSize - 1) / cfg.BlockSize}
	l.place()
	return l
}

// of is the layout of the steps that run in programs of so many tokens.
func (l *layout) of(tokens int) *layout {
	p := *l
	p.tokens = tokens
	if l.beside != nil && tokens >= heldFrom && tokens <= besideMost {
		p.cut = *l.beside
	}
	p.place()
	return &p
}

// place puts the parts one behind the other.
func (l *layout) place() {
	l.words = 0
	take := func(n int) int {
		at := l.words
		l.words += (n + 31) / 32 * 32 // parts begin at multiples of 128 bytes
		return at
	}
	l.number = take(1)
	l.starts = take(len(l.windows) * (l.lists + 1))
	l.ids, l.positions, l.places, l.slots = take(l.tokens), take(l.tokens), take(l.tokens), take(l.tokens)
	l.last, l.rowSlots = take(l.rows), take(l.rows)
	l.tiles = take(len(l.windows) * l.tokens * tileWords)
	l.items = take(len(l.windows) * l.itemsMax() * itemWords)
	l.wides, l.wideCount = take(len(l.windows)*l.tokens*tileWords), take(len(l.windows))
	l.tables = take(l.rows * l.width)
}

// Words of a tile and of an item.
const (
	tileWords = 7
	itemWords = 4
)

// itemsMax is the largest number of items of a step in layers with one window.
func (l *layout) itemsMax() int { return l.tokens + l.lists }

// piecesMax is the largest number of items that share a tile with others.
func (l *layout) piecesMax() int { return 2 * l.lists }

// fill writes a step that runs in a program of a shape, and returns how many words of the structure are in use. serial numbers the step.
func (l *layout) fill(s []int32, step *gpu.Step, run shape, group int, serial uint32, w *work) int {
	s[l.number] = int32(serial)
	t, end := 0, l.tables
	w.tables = w.tables[:0]
	for i := range step.Rows {
		r := &step.Rows[i]
		for j := range r.New() {
			id := uint32(sampledID)
			if r.Tokens != nil {
				id = r.Tokens[j]
			}
			position := r.Computed + j
			s[l.ids+t], s[l.positions+t], s[l.slots+t] = int32(id), int32(position), int32(r.Slot)
			s[l.places+t] = r.Blocks[position/l.blockSize]*int32(l.blockSize) + int32(position%l.blockSize)
			t++
		}
		s[l.last+i], s[l.rowSlots+i] = int32(t-1), int32(r.Slot)
		w.tables = append(w.tables, int32(end-l.tables))
		end += copy(s[end:][:l.width], r.Blocks)
	}
	for ; t < run.tokens; t++ {
		s[l.ids+t], s[l.positions+t], s[l.slots+t], s[l.places+t] = 0, 0, 0, -1
	}
	for i := len(step.Rows); i < run.rows; i++ {
		s[l.last+i], s[l.rowSlots+i] = 0, -1
	}
	for k, window := range l.windows {
		w.plan(step, group, window, l.cut)
		s[l.wideCount+k] = int32(len(w.wides))
		putTiles(s[l.wides+k*l.tokens*tileWords:], w.wides, w.tables)
		copy(s[l.starts+k*(l.lists+1):], w.starts)
		putTiles(s[l.tiles+k*l.tokens*tileWords:], w.tiles, w.tables)
		at := l.items + k*l.itemsMax()*itemWords
		for _, x := range w.items {
			s[at], s[at+1], s[at+2], s[at+3] = x.tile, x.begin, x.end, x.piece
			at += itemWords
		}
	}
	return end
}

// putTiles writes tiles one behind the other, with the places of their rows' block tables.
func putTiles(s []int32, tiles []tile, tables []int32) {
	for i, x := range tiles {
		copy(s[i*tileWords:], []int32{x.first, x.tokens, x.position, tables[x.row], x.piece, x.items, x.cached})
	}
}
