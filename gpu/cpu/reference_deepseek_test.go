package cpu

import (
	"cmp"
	"math"
	"slices"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// latentAttention expands keys and values of all heads, as the papers describe it; the engine never does.
func (m *reference) latentAttention(l int, h [][]float64, freqs []float64, factor float64) [][]float64 {
	g, d, a := m.g, m.g.MLA, model.LayerPrefix(l)+"self_attn."
	q := m.linear(a+"q_b_proj", false, m.normAll(m.linear(a+"q_a_proj", false, h), a+"q_a_layernorm.weight"))
	compressed := m.linear(a+"kv_a_proj_with_mqa", false, h)
	shared := make([][]float64, len(h))
	for t := range h {
		shared[t] = rotatePairs(compressed[t][d.KVRank:], freqs, factor, t)
		compressed[t] = compressed[t][:d.KVRank]
	}
	expanded := m.linear(a+"kv_b_proj", false, m.normAll(compressed, a+"kv_a_layernorm.weight"))
	scale := g.SoftmaxScale()
	if m.plainScale {
		scale = 1 / math.Sqrt(float64(g.HeadDim))
	}
	out := make([][]float64, len(h))
	for t := range h {
		out[t] = make([]float64, g.Heads*d.VDim)
		for head := range g.Heads {
			query := slices.Clone(q[t][head*g.HeadDim : (head+1)*g.HeadDim])
			copy(query[d.NopeDim:], rotatePairs(query[d.NopeDim:], freqs, factor, t))
			weights, sum := make([]float64, t+1), 0.0
			for s := range weights {
				for i, k := range slices.Concat(expanded[s][head*(d.NopeDim+d.VDim):][:d.NopeDim], shared[s]) {
					weights[s] += query[i] * k
				}
				weights[s] = math.Exp(weights[s] * scale)
				sum += weights[s]
			}
			for s, w := range weights {
				for i, v := range expanded[s][head*(d.NopeDim+d.VDim)+d.NopeDim:][:d.VDim] {
					out[t][head*d.VDim+i] += w / sum * v
				}
			}
		}
	}
	return m.linear(a+"o_proj", false, out)
}

// rotatePairs is rotate for pairs that stand side by side.
func rotatePairs(v []float64, freqs []float64, factor float64, position int) []float64 {
	y := make([]float64, len(v))
	for i, f := range freqs {
		sin, cos := math.Sincos(float64(position) * f)
		sin, cos = sin*factor, cos*factor
		y[2*i] = v[2*i]*cos - v[2*i+1]*sin
		y[2*i+1] = v[2*i+1]*cos + v[2*i]*sin
	}
	return y
}

// groupedGate chooses experts and their weights by DeepSeek-V3's rules: it keeps the best groups, then the best experts.
func groupedGate(e *model.Experts, logits, bias []float64) map[int]float64 {
	type expert struct {
		id            int
		score, choice float64
	}
	groups := make([][]expert, e.Groups)
	for i, v := range logits {
		s := 1 / (1 + math.Exp(-v))
		g := i / (e.Count / e.Groups)
		groups[g] = append(groups[g], expert{i, s, s + bias[i]})
	}
	byChoice := func(a, b expert) int { return cmp.Compare(b.choice, a.choice) }
	for _, g := range groups {
		slices.SortStableFunc(g, byChoice)
	}
	slices.SortStableFunc(groups, func(a, b []expert) int {
		return cmp.Compare(b[0].choice+b[1].choice, a[0].choice+a[1].choice)
	})
	eligible := slices.Concat(groups[:e.TopGroups]...)
	slices.SortStableFunc(eligible, byChoice)
	sum := 0.0
	for _, x := range eligible[:e.TopK] {
		sum += x.score
	}
	if !e.Normalise {
		sum = 1
	}
	weights := make(map[int]float64)
	for _, x := range eligible[:e.TopK] {
		weights[x.id] = x.score / sum * e.Scale
	}
	return weights
}

// groupedExperts is the routed part by the grouped gate, and the shared experts with weight 1.
func (m *reference) groupedExperts(l int, h [][]float64) [][]float64 {
	shared := m.g.SharedPrefix(l)
	y := m.mlp(shared+"gate_proj", shared+"up_proj", shared+"down_proj", h)
	logits := m.linear(trimWeight(m.g.RouterName(l)), false, h)
	bias := m.vector(m.g.RouterBiasName(l))
	for t := range h {
		for x, weight := range groupedGate(m.g.Experts, logits[t], bias) {
			name := func(p string) string { return trimWeight(m.g.ExpertName(l, x, p)) }
			for i, v := range m.mlp(name("gate"), name("up"), name("down"), h[t:t+1])[0] {
				y[t][i] += weight * v
			}
		}
	}
	return y
}

func trimWeight(name string) string { return name[:len(name)-len(".weight")] }
