package cpu

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// kernels are the inner loops for one kind of processor.
type kernels struct {
	name  string
	lanes int // values per vector
	dots  []dotKernel
	sums  []sumKernel

	// See simd_amd64.go; nil means that plain loops are used.
	max    func(n int, x *float32) float32
	exp    func(n int, x *float32, shift float32) float32
	swiglu func(n int, gate, up, dst *float32)
}

// dotKernel is a kernel for rows rows and dotCols columns of y = x w^T; see simd_amd64.go.
type dotKernel struct {
	rows int
	run  func(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)
}

// sumKernel is a kernel for rows rows and cols columns of c += a b; see simd_amd64.go.
type sumKernel struct {
	rows, cols int
	run        func(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
}

// dotCols is the number of columns of a dotKernel.
const dotCols = 4

// dotDepth is the most values of a row that are multiplied in one go: 4 rows of w and 6 of x of this many values stay
// in the first-level cache together.
const dotDepth = 1024

// processor is what this processor does best; it has no kernels where gonum is all there is.
var processor = func() kernels {
	if list := simdKernels(); len(list) > 0 {
		return list[0]
	}
	return kernels{name: "gonum", lanes: 1}
}()

// dot computes y = x w^T from x (rows, inner) and w (cols, inner), with row strides ldx, ldw and ldy. A row of y
// does not depend on the rows beside it.
func (k *kernels) dot(rows, cols, inner int, x []float32, ldx int, w []float32, ldw int, y []float32, ldy int) {
	if len(k.dots) == 0 {
		gonumGemm(blas.Trans, rows, cols, inner, x, ldx, w, ldw, 0, y, ldy)
		return
	}
	whole := inner / k.lanes * k.lanes
	cols4 := cols / dotCols * dotCols
	for at := 0; at < whole || at == 0; at += dotDepth {
		n, add := min(dotDepth, whole-at), min(at, 1)
		r := 0
		for _, d := range k.dots {
			for ; r+d.rows <= rows; r += d.rows {
				for c := 0; c < cols4; c += dotCols {
					d.run(n, first(x, r*ldx+at), ldx, first(w, c*ldw+at), ldw, &y[r*ldy+c], ldy, add)
				}
			}
		}
	}
	// What the kernels leave over: values behind the last whole vector, and the last columns.
	for r := range rows {
		if whole < inner {
			tail(y[r*ldy:][:cols4], x[r*ldx+whole:][:inner-whole], w[whole:], ldw)
		}
		if cols4 < cols {
			clear(y[r*ldy+cols4 : r*ldy+cols])
			tail(y[r*ldy+cols4:r*ldy+cols], x[r*ldx:][:inner], w[cols4*ldw:], ldw)
		}
	}
}

// tail adds to y the products of x with as many rows of w.
func tail(y, x, w []float32, ldw int) {
	for c := range y {
		sum := y[c]
		for i, v := range w[c*ldw:][:len(x)] {
			sum += x[i] * v
		}
		y[c] = sum
	}
}

// sum computes c += a b from a (rows, inner) and b (inner, cols), with row strides lda, ldb and ldc.
func (k *kernels) sum(rows, cols, inner int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	if len(k.sums) == 0 {
		gonumGemm(blas.NoTrans, rows, cols, inner, a, lda, b, ldb, 1, c, ldc)
		return
	}
	col := 0
	for i := 0; i < len(k.sums); i += 2 { // two heights of each width
		tall, flat := &k.sums[i], &k.sums[i+1]
		for ; col+tall.cols <= cols; col += tall.cols {
			r := 0
			for ; r+tall.rows <= rows; r += tall.rows {
				tall.run(inner, &a[r*lda], lda, &b[col], ldb, &c[r*ldc+col], ldc)
			}
			for ; r < rows; r++ {
				flat.run(inner, &a[r*lda], lda, &b[col], ldb, &c[r*ldc+col], ldc)
			}
		}
	}
	if col == cols {
		return
	}
	for r := range rows {
		row := c[r*ldc+col : r*ldc+cols]
		for i, v := range a[r*lda:][:inner] {
			for j, w := range b[i*ldb+col:][:len(row)] {
				row[j] += v * w
			}
		}
	}
}

// first is the address of a value, or nil where a slice ends before it and no value will be read.
func first(s []float32, i int) *float32 {
	if i < len(s) {
		return &s[i]
	}
	return nil
}

// gonumCols is the most columns of one call of gonum with at most 64 rows: it starts goroutines of its own from 4 blocks
// of 64 x 64 results on, and the work is to be shared by the engine's workers alone.
const gonumCols = 128

// gonumGemm is c = a b (or a b^T) + beta c; rows is at most 64.
func gonumGemm(transpose blas.Transpose, rows, cols, inner int, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	step := 1
	if transpose == blas.Trans {
		step = ldb
	}
	for at := 0; at < cols; at += gonumCols {
		n := min(gonumCols, cols-at)
		gonum.Implementation{}.Sgemm(blas.NoTrans, transpose, rows, n, inner, 1, a, lda, b[at*step:], ldb, beta, c[at:], ldc)
	}
}
