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

// chooseGroupedExperts is chooseExperts for DeepSeek-V3's gate (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024): the
// scores are sigmoids, bias (Count) is added to them where experts are chosen and nowhere else, and only the experts of
// the TopGroups groups with the largest sums of their two best are eligible. Among equals the lowest wins. choices (Count)
// is overwritten.
func chooseGroupedExperts(e *model.Experts, logits, bias, choices []float32, ids []int32, weights []float32) {
	for i, v := range logits {
		logits[i] = float32(1 / (1 + math.Exp(-float64(v))))
		choices[i] = logits[i] + bias[i]
	}
	out := float32(math.Inf(-1))
	per := e.Count / e.Groups
	for range e.Groups - e.TopGroups {
		worst, least := -1, float32(0)
		for g := range e.Groups {
			if group := choices[g*per : (g+1)*per]; group[0] != out {
				if sum := bestTwo(group); worst < 0 || sum <= least {
					worst, least = g, sum
				}
			}
		}
		for i := range per {
			choices[worst*per+i] = out
		}
	}
	var chosen float64
	for k := range ids {
		best := -1
		for i, v := range choices {
			if v != out && (best < 0 || v > choices[best]) {
				best = i
			}
		}
		ids[k], weights[k] = int32(best), logits[best]
		chosen += float64(logits[best])
		choices[best] = out
	}
	scale := e.Scale
	if e.Normalise {
		scale /= chosen
	}
	for k := range weights {
		weights[k] = float32(float64(weights[k]) * scale)
	}
}

// bestTwo is the sum of the two largest values, or the only one.
func bestTwo(v []float32) float32 {
	first, second := v[0], float32(math.Inf(-1))
	for _, x := range v[1:] {
		if x > first {
			first, second = x, first
		} else if x > second {
			second = x
		}
	}
	if len(v) == 1 {
		return first
	}
	return first + second
}
