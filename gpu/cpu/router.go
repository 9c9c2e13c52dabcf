package cpu

import (
	"math"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// chooseExperts routes one token by the scores of all experts: it writes the TopK chosen experts to ids, best first,
// and the weights of their outputs to weights. logits (Count) is overwritten.
//
// The scores are a softmax over all experts, and the chosen ones are divided by their sum where the family does so
// (Fedus et al., "Switch Transformers", 2021; Jiang et al., "Mixtral of Experts", 2024). Among equal scores the lowest
// expert wins. Logits that are not finite choose some experts with weights that are not finite.
func chooseExperts(e *model.Experts, logits []float32, ids []int32, weights []float32) {
	top := float32(math.Inf(-1))
	for _, v := range logits {
		top = max(top, v)
	}
	var all float64
	for i, v := range logits {
		p := math.Exp(float64(v - top))
		all += p
		logits[i] = float32(p)
	}
	const taken = -1 // below every score
	var chosen float64
	for k := range ids {
		best := 0
		for i, p := range logits {
			if p > logits[best] || logits[best] == taken {
				best = i
			}
		}
		ids[k], weights[k] = int32(best), logits[best]
		chosen += float64(logits[best])
		logits[best] = taken
	}
	scale := e.Scale / all
	if e.Normalise {
		scale = e.Scale / chosen
	}
	for k := range weights {
		weights[k] = float32(float64(weights[k]) * scale)
	}
}
