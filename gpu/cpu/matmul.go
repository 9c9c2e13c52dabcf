package cpu

// tileRows is the most rows of x in a tile of a matrix product.
const tileRows = 64

// tileCols is the number of rows of w in a tile that meets the given number of rows of x. A tile of w stays in cache while
// it meets all rows of x; with few of them the work is to read w, and smaller tiles share it out more evenly.
func tileCols(rows int) int {
	if rows <= 16 {
		return 16
	}
	return 64
}

// matmul is y = x w^T + bias, shared out in tiles.
type matmul struct {
	threads *threads
	task    func(worker, item int) // m.tile, made once

	x, w, bias, y []float32 // (rows, in), (out, in), (out) or nil, (rows, out)
	rows, in, out int
	rowTiles      int
	cols          int // of a tile
}

func newMatmul(t *threads) *matmul {
	m := &matmul{threads: t}
	m.task = m.tile
	return m
}

// run computes y (rows, out) from x (rows, in) and w (out, in).
func (m *matmul) run(y, x, w, bias []float32, rows, in, out int) {
	m.y, m.x, m.w, m.bias = y, x, w, bias
	m.rows, m.in, m.out = rows, in, out
	m.rowTiles, m.cols = ceil(rows, tileRows), tileCols(rows)
	m.threads.run(m.rowTiles*ceil(out, m.cols), m.task)
}

func (m *matmul) tile(_, item int) {
	row, col := item%m.rowTiles*tileRows, item/m.rowTiles*m.cols
	rows, cols := min(tileRows, m.rows-row), min(m.cols, m.out-col)
	y := m.y[row*m.out+col:]
	processor.dot(rows, cols, m.in, m.x[row*m.in:], m.in, m.w[col*m.in:], m.in, y, m.out)
	if m.bias == nil {
		return
	}
	for r := range rows {
		for c, b := range m.bias[col : col+cols] {
			y[r*m.out+c] += b
		}
	}
}

func ceil(n, d int) int { return (n + d - 1) / d }
