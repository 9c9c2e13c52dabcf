package model

import (
	"math"
	"slices"
)

// Geometry is the shape and the arithmetic of a decoder-only transformer, unsharded. It is read-only once
// loaded and may be shared.
type Geometry struct {
	Name         string // preset name, or the path it was read from
	ModelType    string // Hugging Face model_type, such as "llama"
	Architecture string // class name in the config, such as "LlamaForCausalLM"
	DType        string // type of the published weights: "bfloat16", "float16" or "float32"

	Layers       int // decoder layers
	Hidden       int // width of the residual stream
	Intermediate int // width of a dense layer's MLP
	Vocab        int // rows of the embedding
	Heads        int // query heads
	KVHeads      int // key and value heads; Heads when MLA is set
	HeadDim      int // values per query and key head; with MLA the sum of both parts
	MaxPositions int // max_position_embeddings

	NormEps     float64 // added to the mean square in RMSNorm
	InitRange   float64 // standard deviation of random weights
	Tied        bool    // the LM head is the embedding
	QKVBias     bool    // q, k and v projections have biases
	OutBias     bool    // the attention output projection has a bias
	MLPBias     bool    // the MLP projections have biases
	QKNorm      bool    // q and k are RMS-normalised per head before the rotation
	Windows     []int   // (Layers) keys a query sees, itself included; 0 means all
	Rope        Rope
	Experts     *Experts // routed experts, nil for a dense model
	MLA         *MLA     // multi-head latent attention, nil for grouped-query attention
	WeightBlock [2]int   // rows and columns per fp8 weight scale, zero when weights are not quantised
}

// Experts is the mixture-of-experts part of a geometry.
type Experts struct {
	Count         int     // routed experts per sparse layer
	TopK          int     // experts per token
	Intermediate  int     // width of one routed expert
	Shared        int     // experts that every token uses with weight 1, each Intermediate wide
	Sigmoid       bool    // scores are sigmoids with a selection bias (DeepSeek-V3), else a softmax
	Normalise     bool    // weights of the chosen experts are divided by their sum
	Scale         float64 // factor on the routed weights
	Groups        int     // groups the experts are divided into for selection, 1 for none
	TopGroups     int     // groups a token may choose from
	Sparse        []bool  // (Layers) which layers have experts; the others are dense
	MixtralNaming bool    // tensors are block_sparse_moe.experts.N.w1/w2/w3 instead of mlp.experts.N.*_proj
}

// MLA holds the ranks and head sizes of multi-head latent attention.
type MLA struct {
	QRank   int // rank of the query projection
	KVRank  int // values of the compressed keys and values that are cached
	NopeDim int // values per head that are not rotated
	RopeDim int // values per head that are rotated; the cached key part is shared by all heads
	VDim    int // values per value head
}

// QSize is the number of query values per token.
func (g *Geometry) QSize() int { return g.Heads * g.HeadDim }

// KVSize is the number of key values per token and layer, and of value values, without MLA.
func (g *Geometry) KVSize() int { return g.KVHeads * g.HeadDim }

// IsSparse reports whether a layer has routed experts.
func (g *Geometry) IsSparse(layer int) bool { return g.Experts != nil && g.Experts.Sparse[layer] }

// HasDense reports whether any layer has a dense MLP.
func (g *Geometry) HasDense() bool {
	return g.Experts == nil || slices.Contains(g.Experts.Sparse, false)
}

// SoftmaxScale is the factor on the dot products of attention. DeepSeek multiplies the usual
// 1/sqrt(head size) by the square of YaRN's mscale_all_dim term.
func (g *Geometry) SoftmaxScale() float64 {
	scale := 1 / math.Sqrt(float64(g.HeadDim))
	if g.MLA != nil && g.Rope.Type == RopeYarn && g.Rope.MscaleAllDim != 0 {
		m := yarnMscale(g.Rope.Factor, g.Rope.MscaleAllDim)
		scale *= m * m
	}
	return scale
}

// LocalKVHeads is the number of KV heads one of tp tensor-parallel ranks holds: its share, or one head that
// several ranks hold.
func (g *Geometry) LocalKVHeads(tp int) int { return max(1, g.KVHeads/tp) }

// KVBytesPerToken is the cache that one token takes in all layers on one of tp ranks, in bytes, with
// values of valueBytes bytes. Multi-head latent attention caches one compressed vector on every rank.
func (g *Geometry) KVBytesPerToken(valueBytes, tp int) int64 {
	perLayer := 2 * g.LocalKVHeads(tp) * g.HeadDim
	if g.MLA != nil {
		perLayer = g.MLA.KVRank + g.MLA.RopeDim
	}
	return int64(g.Layers) * int64(perLayer) * int64(valueBytes)
}

// Parameters is the number of weights, shared ones counted once and multi-token-prediction layers not counted.
func (g *Geometry) Parameters() int64 {
	var n int64
	for t := range g.Tensors() {
		n += t.Elements()
	}
	return n
}
