package cpu

// segment is a run of rows that meet the same expert.
type segment struct {
	expert      int // among this worker's
	first, rows int
}

// grouped is a product of many rows with the matrix that each row's expert has, shared out in tiles.
type grouped struct {
	threads *threads
	task    func(worker, item int) // g.tile, made once

	tiles   []segment   // of at most tileRows rows, in the order of the experts
	w       [][]float32 // (experts, out, in)
	x, y    []float32   // (rows, in), (rows, out)
	in, out int
	cols    int // of a tile
}

// newGrouped has room for the given numbers of rows and segments.
func newGrouped(t *threads, rows, segments int) *grouped {
	g := &grouped{threads: t, tiles: make([]segment, 0, rows/tileRows+segments)}
	g.task = g.tile
	return g
}

// plan cuts a step's segments into tiles. Segments of one expert that follow each other share its matrix in cache.
func (g *grouped) plan(segments []segment) {
	g.tiles = g.tiles[:0]
	most := 0
	for _, s := range segments {
		most = max(most, s.rows)
		for at := 0; at < s.rows; at += tileRows {
			g.tiles = append(g.tiles, segment{s.expert, s.first + at, min(tileRows, s.rows-at)})
		}
	}
	g.cols = tileCols(most)
}

// run computes y (rows, out) from x (rows, in) for the planned segments; w[i] (out, in) is expert i's.
func (g *grouped) run(y, x []float32, w [][]float32, in, out int) {
	g.y, g.x, g.w, g.in, g.out = y, x, w, in, out
	g.threads.run(len(g.tiles)*ceil(out, g.cols), g.task)
}

func (g *grouped) tile(_, item int) {
	t, col := g.tiles[item%len(g.tiles)], item/len(g.tiles)*g.cols
	cols := min(g.cols, g.out-col)
	processor.dot(t.rows, cols, g.in, g.x[t.first*g.in:], g.in, g.w[t.expert][col*g.in:], g.in, g.y[t.first*g.out+col:], g.out)
}
