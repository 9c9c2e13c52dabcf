package cpu

import (
	"math"
	"slices"
)

// top is the largest of at least one value.
func (k *kernels) top(x []float32) float32 {
	top := float32(math.Inf(-1))
	if n := len(x) / k.lanes * k.lanes; k.max != nil && n > 0 {
		top, x = k.max(n, &x[0]), x[n:]
	}
	for _, v := range x {
		top = max(top, v)
	}
	return top
}

// argmax is the first index of the largest of at least one value; of values that are not all numbers it is some index.
func (k *kernels) argmax(x []float32) int {
	const chunk = 4096 // values that are searched for their largest one
	best, at := x[0], 0
	for first := 0; first < len(x); first += chunk {
		if top := k.top(x[first:min(first+chunk, len(x))]); top > best {
			best, at = top, first
		}
	}
	return at + max(0, slices.Index(x[at:min(at+chunk, len(x))], best))
}

// exponentials replaces x by e to the power of x - shift and returns the sum.
func (k *kernels) exponentials(x []float32, shift float32) float32 {
	var sum float64
	if n := len(x) / k.lanes * k.lanes; k.exp != nil && n > 0 {
		sum, x = float64(k.exp(n, &x[0], shift)), x[n:]
	}
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - shift)))
		sum += float64(x[i])
	}
	return float32(sum)
}

// gated writes silu(gate) times up to dst (n); gateUp (2 n) is gate, then up (Shazeer, "GLU Variants Improve
// Transformer", 2020).
func (k *kernels) gated(dst, gateUp []float32) {
	gate, up := gateUp[:len(dst)], gateUp[len(dst):]
	if n := len(dst) / k.lanes * k.lanes; k.swiglu != nil && n > 0 {
		k.swiglu(n, &gate[0], &up[0], &dst[0])
		dst, gate, up = dst[n:], gate[n:], up[n:]
	}
	for i, v := range gate {
		dst[i] = silu(v) * up[i]
	}
}

// silu is x times its logistic function.
func silu(x float32) float32 {
	return float32(float64(x) / (1 + math.Exp(-float64(x))))
}
