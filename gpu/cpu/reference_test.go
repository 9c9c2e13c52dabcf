package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// reference is a forward pass written plainly in float64: one sequence, no paging, no batching, no shards.
type reference struct {
	g   *model.Geometry
	src model.Source
	t   *testing.T

	rotateFirst bool // a deliberate fault: rotation before the q/k norm
	plainScale  bool // a deliberate fault: DeepSeek's softmax scale without YaRN's factor
}

func (m *reference) tensor(name string) [][]float64 {
	for t := range m.g.Tensors() {
		if t.Name != name {
			continue
		}
		flat := make([]float32, t.Elements())
		if err := m.src.Fill(name, model.Rect{Rows: t.Rows(), Cols: t.Cols()}, flat); err != nil {
			m.t.Fatal(err)
		}
		rows := make([][]float64, t.Rows())
		for i := range rows {
			rows[i] = make([]float64, t.Cols())
			for j := range rows[i] {
				rows[i][j] = float64(flat[i*t.Cols()+j])
			}
		}
		return rows
	}
	m.t.Fatalf("%s has no tensor %s", m.g.Name, name)
	return nil
}

func (m *reference) vector(name string) []float64 {
	rows := m.tensor(name)
	v := make([]float64, len(rows))
	for i := range rows {
		v[i] = rows[i][0]
	}
	return v
}

// linear is w x plus the bias that a family may have.
func (m *reference) linear(name string, bias bool, x [][]float64) [][]float64 {
	w := m.tensor(name + ".weight")
	var b []float64
	if bias {
		b = m.vector(name + ".bias")
	}
	y := make([][]float64, len(x))
	for t := range x {
		y[t] = make([]float64, len(w))
		for o, row := range w {
			for i, v := range row {
				y[t][o] += v * x[t][i]
			}
			if b != nil {
				y[t][o] += b[o]
			}
		}
	}
	return y
}

func (m *reference) norm(x, w []float64) []float64 {
	var sum float64
	for _, v := range x {
		sum += v * v
	}
	scale := 1 / math.Sqrt(sum/float64(len(x))+m.g.NormEps)
	y := make([]float64, len(x))
	for i := range x {
		y[i] = x[i] * scale * w[i]
	}
	return y
}

func (m *reference) normAll(x [][]float64, name string) [][]float64 {
	w := m.vector(name)
	y := make([][]float64, len(x))
	for t := range x {
		y[t] = m.norm(x[t], w)
	}
	return y
}

func rotate(v []float64, freqs []float64, factor float64, position int) []float64 {
	half := len(v) / 2
	y := make([]float64, len(v))
	for i, f := range freqs {
		sin, cos := math.Sincos(float64(position) * f)
		sin, cos = sin*factor, cos*factor
		y[i] = v[i]*cos - v[i+half]*sin
		y[i+half] = v[i+half]*cos + v[i]*sin
	}
	return y
}

// logits of every token of a sequence, (tokens, Vocab); maxLen is what dynamic frequencies are made for.
func (m *reference) logits(tokens []uint32, maxLen int) [][]float64 {
	g := m.g
	embed := m.tensor(model.EmbedName)
	x := make([][]float64, len(tokens))
	for t, id := range tokens {
		x[t] = slices.Clone(embed[id])
	}
	rope := g.Rope.ForLength(maxLen)
	freqs, factor := rope.Frequencies(), rope.AttentionFactor()
	add := func(y [][]float64) {
		for t := range x {
			for i := range x[t] {
				x[t][i] += y[t][i]
			}
		}
	}
	for l := range g.Layers {
		p := model.LayerPrefix(l)
		add(m.attention(l, m.normAll(x, p+"input_layernorm.weight"), freqs, factor))
		h := m.normAll(x, p+"post_attention_layernorm.weight")
		if g.IsSparse(l) {
			add(m.experts(l, h))
		} else {
			add(m.mlp(p+"mlp.gate_proj", p+"mlp.up_proj", p+"mlp.down_proj", h))
		}
	}
	x = m.normAll(x, model.NormName)
	head := "lm_head"
	if g.Tied {
		head = "model.embed_tokens"
	}
	return m.linear(head, false, x)
}

func (m *reference) mlp(gate, up, down string, h [][]float64) [][]float64 {
	a, u := m.linear(gate, m.g.MLPBias, h), m.linear(up, m.g.MLPBias, h)
	for t := range a {
		for i, v := range a[t] {
			a[t][i] = v / (1 + math.Exp(-v)) * u[t][i]
		}
	}
	return m.linear(down, m.g.MLPBias, a)
}

// experts is the routed part: softmax over all experts, the best TopK, weights normalised or not.
func (m *reference) experts(l int, h [][]float64) [][]float64 {
	e := m.g.Experts
	if e.Sigmoid {
		return m.groupedExperts(l, h)
	}
	y := make([][]float64, len(h))
	for t := range h {
		y[t] = make([]float64, m.g.Hidden)
		scores := m.linear(m.g.RouterName(l)[:len(m.g.RouterName(l))-len(".weight")], false, h[t:t+1])[0]
		var sum float64
		for i := range scores {
			scores[i] = math.Exp(scores[i])
			sum += scores[i]
		}
		order := make([]int, e.Count)
		for i := range order {
			order[i] = i
			scores[i] /= sum
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case scores[a] > scores[b]:
				return -1
			case scores[a] < scores[b]:
				return 1
			}
			return 0
		})
		var chosen float64
		for _, x := range order[:e.TopK] {
			chosen += scores[x]
		}
		if !e.Normalise {
			chosen = 1
		}
		for _, x := range order[:e.TopK] {
			name := func(p string) string {
				full := m.g.ExpertName(l, x, p)
				return full[:len(full)-len(".weight")]
			}
			for i, v := range m.mlp(name("gate"), name("up"), name("down"), h[t:t+1])[0] {
				y[t][i] += v * scores[x] / chosen
			}
		}
	}
	return y
}

func (m *reference) attention(l int, h [][]float64, freqs []float64, factor float64) [][]float64 {
	g, a := m.g, model.LayerPrefix(l)+"self_attn."
	if g.MLA != nil {
		return m.latentAttention(l, h, freqs, factor)
	}
	d := g.HeadDim
	q, k, v := m.linear(a+"q_proj", g.QKVBias, h), m.linear(a+"k_proj", g.QKVBias, h), m.linear(a+"v_proj", g.QKVBias, h)
	prepare := func(all [][]float64, norm string) {
		var w []float64
		if g.QKNorm {
			w = m.vector(a + norm)
		}
		for t := range all {
			for at := 0; at < len(all[t]); at += d {
				head := all[t][at : at+d]
				if m.rotateFirst {
					copy(head, rotate(head, freqs, factor, t))
				}
				if w != nil {
					copy(head, m.norm(head, w))
				}
				if !m.rotateFirst {
					copy(head, rotate(head, freqs, factor, t))
				}
			}
		}
	}
	prepare(q, "q_norm.weight")
	prepare(k, "k_norm.weight")
	out := make([][]float64, len(h))
	for t := range h {
		out[t] = make([]float64, g.QSize())
		for head := range g.Heads {
			kv := head / (g.Heads / g.KVHeads) * d
			first := 0
			if w := g.Windows[l]; w > 0 {
				first = max(0, t-w+1)
			}
			weights := make([]float64, t+1)
			var sum float64
			for s := first; s <= t; s++ {
				for i := range d {
					weights[s] += q[t][head*d+i] * k[s][kv+i]
				}
				weights[s] = math.Exp(weights[s] * g.SoftmaxScale())
				sum += weights[s]
			}
			for s := first; s <= t; s++ {
				for i := range d {
					out[t][head*d+i] += weights[s] / sum * v[s][kv+i]
				}
			}
		}
	}
	return m.linear(a+"o_proj", g.OutBias, out)
}

// distance is ||a-b||2 / ||b||2.
func distance(a []float32, b []float64) float64 {
	var diff, norm float64
	for i := range b {
		diff += (float64(a[i]) - b[i]) * (float64(a[i]) - b[i])
		norm += b[i] * b[i]
	}
	return math.Sqrt(diff / norm)
}
