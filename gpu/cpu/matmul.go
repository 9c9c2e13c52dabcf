package cpu

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// Tile sizes of a matrix product.
const (
	tileRows = 64 // rows of x
	tileCols = 64 // rows of w: a tile of w stays in cache while it meets all rows of x
)

// gemmCols is the most columns of one call of gonum with at most 64 rows: it starts goroutines of its own
// from 4 blocks of 64 x 64 results on, and the work is to be shared by the engine's workers alone.
const gemmCols = 128

// gemm is c = a b^T (trans) or c = a b, plus beta c, with row strides lda, ldb and ldc; rows is at most 64.
func gemm(trans bool, rows, cols, inner int, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	tb, step := blas.NoTrans, 1
	if trans {
		tb, step = blas.Trans, ldb
	}
	for at := 0; at < cols; at += gemmCols {
		n := min(gemmCols, cols-at)
		gonum.Implementation{}.Sgemm(blas.NoTrans, tb, rows, n, inner, 1, a, lda, b[at*step:], ldb, beta, c[at:], ldc)
	}
}

// matmul is y = x w^T + bias, shared out in tiles.
type matmul struct {
	threads *threads
	task    func(worker, item int) // m.tile, made once

	x, w, bias, y []float32 // (rows, in), (out, in), (out) or nil, (rows, out)
	rows, in, out int
	rowTiles      int
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
	m.rowTiles = ceil(rows, tileRows)
	m.threads.run(m.rowTiles*ceil(out, tileCols), m.task)
}

func (m *matmul) tile(_, item int) {
	row, col := item%m.rowTiles*tileRows, item/m.rowTiles*tileCols
	rows, cols := min(tileRows, m.rows-row), min(tileCols, m.out-col)
	y := m.y[row*m.out+col:]
	gemm(true, rows, cols, m.in, m.x[row*m.in:], m.in, m.w[col*m.in:], m.in, 0, y, m.out)
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
