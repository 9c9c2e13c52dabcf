package cpu

import "math"

// rmsNorm writes x divided by its root mean square and multiplied by w to dst, which may be x.
func rmsNorm(dst, x, w []float32, eps float64) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(x))+eps))
	for i, v := range x {
		dst[i] = v * scale * w[i]
	}
}

// silu is x times its logistic function.
func silu(x float32) float32 {
	return float32(float64(x) / (1 + math.Exp(-float64(x))))
}

// swiglu writes silu(gate) times up to dst (w); gateUp (2 w) is gate, then up (Shazeer, "GLU Variants", 2020).
func swiglu(dst, gateUp []float32) {
	up := gateUp[len(dst):]
	for i, v := range gateUp[:len(dst)] {
		dst[i] = silu(v) * up[i]
	}
}
