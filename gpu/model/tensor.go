package model

import (
	"fmt"
	"iter"
)

// Tensor is one weight of a model by its unsharded Hugging Face name.
type Tensor struct {
	Name  string
	Shape []int // (out, in) for a matrix, (n) for a vector
}

// Rows is the first dimension.
func (t Tensor) Rows() int { return t.Shape[0] }

// Cols is the second dimension, 1 for a vector.
func (t Tensor) Cols() int {
	if len(t.Shape) == 1 {
		return 1
	}
	return t.Shape[1]
}

// Elements is the number of values.
func (t Tensor) Elements() int64 { return int64(t.Rows()) * int64(t.Cols()) }

// Names of the tensors outside the layers.
const (
	EmbedName = "model.embed_tokens.weight"
	NormName  = "model.norm.weight"
	HeadName  = "lm_head.weight"
)

// LayerPrefix is the beginning of the names of a layer's tensors.
func LayerPrefix(layer int) string { return fmt.Sprintf("model.layers.%d.", layer) }

// ExpertName is the name of a routed expert's projection, which is "gate", "up" or "down".
func (g *Geometry) ExpertName(layer, expert int, projection string) string {
	if g.Experts.MixtralNaming {
		w := map[string]string{"gate": "w1", "up": "w3", "down": "w2"}[projection]
		return fmt.Sprintf("%sblock_sparse_moe.experts.%d.%s.weight", LayerPrefix(layer), expert, w)
	}
	return fmt.Sprintf("%smlp.experts.%d.%s_proj.weight", LayerPrefix(layer), expert, projection)
}

// RouterName is the name of the router's weight.
func (g *Geometry) RouterName(layer int) string {
	if g.Experts.MixtralNaming {
		return LayerPrefix(layer) + "block_sparse_moe.gate.weight"
	}
	return LayerPrefix(layer) + "mlp.gate.weight"
}

// RouterBiasName is the name of the bias that is added to the router's scores where experts are chosen (DeepSeek-V3).
func (g *Geometry) RouterBiasName(layer int) string {
	return LayerPrefix(layer) + "mlp.gate.e_score_correction_bias"
}

// SharedPrefix is the beginning of the names of a sparse layer's shared experts, which are one network.
func (g *Geometry) SharedPrefix(layer int) string { return LayerPrefix(layer) + "mlp.shared_experts." }

// Tensors yields every weight of the model in checkpoint order. A tied LM head is not a tensor of its own.
func (g *Geometry) Tensors() iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		stopped := false
		put := func(name string, shape ...int) {
			if !stopped {
				stopped = !yield(Tensor{name, shape})
			}
		}
		put(EmbedName, g.Vocab, g.Hidden)
		for l := 0; l < g.Layers && !stopped; l++ {
			g.attentionTensors(l, put)
			if g.IsSparse(l) {
				g.expertTensors(l, put)
			} else {
				g.mlpTensors(LayerPrefix(l)+"mlp.", g.Intermediate, put)
			}
		}
		put(NormName, g.Hidden)
		if !g.Tied {
			put(HeadName, g.Vocab, g.Hidden)
		}
	}
}

func (g *Geometry) attentionTensors(layer int, put func(string, ...int)) {
	p := LayerPrefix(layer)
	put(p+"input_layernorm.weight", g.Hidden)
	put(p+"post_attention_layernorm.weight", g.Hidden)
	p += "self_attn."
	if m := g.MLA; m != nil {
		put(p+"q_a_proj.weight", m.QRank, g.Hidden)
		put(p+"q_a_layernorm.weight", m.QRank)
		put(p+"q_b_proj.weight", g.QSize(), m.QRank)
		put(p+"kv_a_proj_with_mqa.weight", m.KVRank+m.RopeDim, g.Hidden)
		put(p+"kv_a_layernorm.weight", m.KVRank)
		put(p+"kv_b_proj.weight", g.Heads*(m.NopeDim+m.VDim), m.KVRank)
		put(p+"o_proj.weight", g.Hidden, g.Heads*m.VDim)
		return
	}
	for _, proj := range []struct {
		name    string
		out, in int
		bias    bool
	}{
		{"q_proj", g.QSize(), g.Hidden, g.QKVBias},
		{"k_proj", g.KVSize(), g.Hidden, g.QKVBias},
		{"v_proj", g.KVSize(), g.Hidden, g.QKVBias},
		{"o_proj", g.Hidden, g.QSize(), g.OutBias},
	} {
		put(p+proj.name+".weight", proj.out, proj.in)
		if proj.bias {
			put(p+proj.name+".bias", proj.out)
		}
	}
	if g.QKNorm {
		put(p+"q_norm.weight", g.HeadDim)
		put(p+"k_norm.weight", g.HeadDim)
	}
}

func (g *Geometry) mlpTensors(prefix string, width int, put func(string, ...int)) {
	for _, proj := range []struct {
		name    string
		out, in int
	}{{"gate_proj", width, g.Hidden}, {"up_proj", width, g.Hidden}, {"down_proj", g.Hidden, width}} {
		put(prefix+proj.name+".weight", proj.out, proj.in)
		if g.MLPBias {
			put(prefix+proj.name+".bias", proj.out)
		}
	}
}

func (g *Geometry) expertTensors(layer int, put func(string, ...int)) {
	e := g.Experts
	put(g.RouterName(layer), e.Count, g.Hidden)
	if e.Sigmoid {
		put(g.RouterBiasName(layer), e.Count)
	}
	for x := range e.Count {
		put(g.ExpertName(layer, x, "gate"), e.Intermediate, g.Hidden)
		put(g.ExpertName(layer, x, "up"), e.Intermediate, g.Hidden)
		put(g.ExpertName(layer, x, "down"), g.Hidden, e.Intermediate)
	}
	if e.Shared > 0 {
		g.mlpTensors(g.SharedPrefix(layer), e.Shared*e.Intermediate, put)
	}
}
