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
