package cpu

import "golang.org/x/sys/cpu"

// The kernels in simd_amd64.s. Pointers name the first of as many values as counts and strides (in elements) say.
//
// dotR computes R rows and 4 columns of y = x w^T, or y += x w^T when add is 1: n values of each of R rows of x with n
// values of each of 4 rows of w. n is a multiple of the lanes.
//
// sumRxC computes R rows and C columns of c += a b: a is (R, n) and b is (n, C).

//go:noescape
func dot6AVX512(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)

//go:noescape
func dot4AVX512(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)

//go:noescape
func dot2AVX512(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)

//go:noescape
func dot1AVX512(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)

//go:noescape
func dot3AVX2(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)

//go:noescape
func dot2AVX2(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)

//go:noescape
func dot1AVX2(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)

//go:noescape
func sum4x64AVX512(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)

//go:noescape
func sum1x64AVX512(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)

//go:noescape
func sum4x16AVX512(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)

//go:noescape
func sum1x16AVX512(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)

//go:noescape
func sum4x16AVX2(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)

//go:noescape
func sum1x16AVX2(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)

//go:noescape
func sum4x8AVX2(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)

//go:noescape
func sum1x8AVX2(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)

// maxAVX512 is the largest of n values. expAVX512 replaces n values by e to the power of the value less shift, and returns
// their sum. swigluAVX512 writes silu(gate) times up. n is a positive multiple of the lanes.

//go:noescape
func maxAVX512(n int, x *float32) float32

//go:noescape
func expAVX512(n int, x *float32, shift float32) float32

//go:noescape
func swigluAVX512(n int, gate, up, dst *float32)

// relax leaves the core to its other thread for a moment, while this one waits for a value in memory to change.
func relax()

// simdKernels are the kernels that this processor has, widest first.
func simdKernels() []kernels {
	var list []kernels
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL {
		list = append(list, kernels{
			name: "avx512", lanes: 16,
			dots: []dotKernel{{6, dot6AVX512}, {4, dot4AVX512}, {2, dot2AVX512}, {1, dot1AVX512}},
			max:  maxAVX512, exp: expAVX512, swiglu: swigluAVX512,
			sums: []sumKernel{{4, 64, sum4x64AVX512}, {1, 64, sum1x64AVX512}, {4, 16, sum4x16AVX512}, {1, 16, sum1x16AVX512}},
		})
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		list = append(list, kernels{
			name: "avx2", lanes: 8,
			dots: []dotKernel{{3, dot3AVX2}, {2, dot2AVX2}, {1, dot1AVX2}},
			sums: []sumKernel{{4, 16, sum4x16AVX2}, {1, 16, sum1x16AVX2}, {4, 8, sum4x8AVX2}, {1, 8, sum1x8AVX2}},
		})
	}
	return list
}
