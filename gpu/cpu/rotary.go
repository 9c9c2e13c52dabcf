package cpu

import (
	"math"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// rotary holds the cosines and sines of all positions. Angles are computed in float64 and only their cosine
// and sine are rounded.
type rotary struct {
	half int
	cos  []float32 // (positions, half)
	sin  []float32 // (positions, half)
}

func newRotary(r model.Rope, positions int) *rotary {
	freqs := r.ForLength(positions).Frequencies()
	factor := r.AttentionFactor()
	t := &rotary{half: len(freqs), cos: make([]float32, positions*len(freqs)), sin: make([]float32, positions*len(freqs))}
	for p := range positions {
		for i, f := range freqs {
			sin, cos := math.Sincos(float64(p) * f)
			t.cos[p*t.half+i], t.sin[p*t.half+i] = float32(cos*factor), float32(sin*factor)
		}
	}
	return t
}

// applyPairs is apply for values whose pairs stand side by side: pair i is values 2i and 2i+1.
func (t *rotary) applyPairs(v []float32, position int) {
	cos, sin := t.cos[position*t.half:][:t.half], t.sin[position*t.half:][:t.half]
	for i, c := range cos {
		x, y := v[2*i], v[2*i+1]
		v[2*i], v[2*i+1] = x*c-y*sin[i], y*c+x*sin[i]
	}
}

// apply turns one head's values (2 half) by its position: pair i is values i and i+half.
func (t *rotary) apply(v []float32, position int) {
	cos, sin := t.cos[position*t.half:][:t.half], t.sin[position*t.half:][:t.half]
	lo, hi := v[:t.half], v[t.half:2*t.half]
	for i, x := range lo {
		y := hi[i]
		lo[i] = x*cos[i] - y*sin[i]
		hi[i] = y*cos[i] + x*sin[i]
	}
}
