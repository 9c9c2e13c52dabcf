package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// everyKernels are the kernels of this processor and gonum.
func everyKernels() []kernels { return append(simdKernels(), kernels{name: "gonum", lanes: 1}) }

// matrix is rows of a seeded near-normal stream.
func matrix(seed uint64, n int) []float32 {
	m := make([]float32, n)
	model.FillNormal(m, seed, 0)
	return m
}

const canary = float32(12345)

// untouched reports a value outside rows x cols of a matrix with canaries.
func untouched(t *testing.T, y []float32, rows, cols, ld int) {
	t.Helper()
	for i, v := range y {
		if (i/ld >= rows || i%ld >= cols) && v != canary {
			t.Fatalf("value %d of row %d, outside %d x %d, was written", i%ld, i/ld, rows, cols)
		}
	}
}

// Every height, width and depth that leaves something over, against plain sums in float64; the values around the
// result stay as they were. The largest error and its share of the tolerance are logged.
func TestProducts(t *testing.T) {
	for _, k := range everyKernels() {
		t.Run(k.name, func(t *testing.T) {
			worst := 0.0
			near := func(what string, got float32, want, scale float64) {
				t.Helper()
				tolerance := 2e-6 * (1 + scale)
				worst = max(worst, math.Abs(float64(got)-want)/tolerance)
				if !(math.Abs(float64(got)-want) <= tolerance) {
					t.Fatalf("%s: %v, want %v", what, got, want)
				}
			}
			for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 11, 64} {
				for _, cols := range []int{1, 3, 4, 5, 8, 16, 31, 64, 67, 81} {
					for _, inner := range []int{1, 7, 8, 16, 23, 48, 128, 1024, 1100, 2051} {
						if rows*cols*inner > 1<<21 {
							continue
						}
						what := fmt.Sprintf("%d x %d x %d", rows, cols, inner)
						lda, ldb, ldy := inner+3, inner+5, cols+2
						a, b := matrix(1, rows*lda), matrix(2, cols*ldb)
						y := make([]float32, (rows+1)*ldy)
						for i := range y {
							y[i] = canary
						}
						k.dot(rows, cols, inner, a, lda, b, ldb, y, ldy)
						untouched(t, y, rows, cols, ldy)
						for r := range rows {
							for c := range cols {
								want, scale := 0.0, 0.0
								for i := range inner {
									p := float64(a[r*lda+i]) * float64(b[c*ldb+i])
									want, scale = want+p, scale+math.Abs(p)
								}
								near("x w^T "+what, y[r*ldy+c], want, scale)
							}
						}
						if inner > 128 {
							continue
						}
						// b is read as (inner, cols) here.
						ldb = cols + 1
						b = matrix(3, inner*ldb)
						start := matrix(4, len(y))
						for i := range y {
							y[i] = canary
							if i/ldy < rows && i%ldy < cols {
								y[i] = start[i]
							}
						}
						k.sum(rows, cols, inner, a, lda, b, ldb, y, ldy)
						untouched(t, y, rows, cols, ldy)
						for r := range rows {
							for c := range cols {
								want, scale := float64(start[r*ldy+c]), 0.0
								for i := range inner {
									p := float64(a[r*lda+i]) * float64(b[i*ldb+c])
									want, scale = want+p, scale+math.Abs(p)
								}
								near("c + a b "+what, y[r*ldy+c], want, scale)
							}
						}
					}
				}
			}
			t.Logf("largest error: %.0f %% of the tolerance", 100*worst)
		})
	}
}

// A row's products are the same bits whatever rows are computed beside it, so that a token does not depend on its batch.
func TestProductsOfARowDoNotDependOnOthers(t *testing.T) {
	const inner, cols, most = 1100, 67, 64
	x, w := matrix(1, most*inner), matrix(2, cols*inner)
	for _, k := range simdKernels() {
		all := make([]float32, most*cols)
		k.dot(most, cols, inner, x, inner, w, inner, all, cols)
		for _, rows := range []int{1, 2, 3, 5, 8, 13} {
			y := make([]float32, rows*cols)
			k.dot(rows, cols, inner, x, inner, w, inner, y, cols)
			if !bitsEqual(y, all[:rows*cols]) {
				t.Errorf("%s: %d rows alone differ from the same rows of %d", k.name, rows, most)
			}
		}
	}
}

// One tile of a prefill (64 rows) and of decode (1 and 8 rows) with qwen3-0.6b's width, by every kind of kernel.
func BenchmarkDot(b *testing.B) {
	const inner, cols = 1024, 64
	for _, k := range everyKernels() {
		for _, rows := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/rows%d", k.name, rows), func(b *testing.B) {
				x, w, y := matrix(1, rows*inner), matrix(2, cols*inner), make([]float32, rows*cols)
				for b.Loop() {
					k.dot(rows, cols, inner, x, inner, w, inner, y, cols)
				}
				b.ReportMetric(2*float64(rows*cols*inner)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
