package model

import "slices"

func parseQwen3MoE(c *config, g *Geometry, f *family) {
	parseQwen3(c, g, f)
	if c.bool("use_sliding_window", false) {
		c.fail("use_sliding_window", "model_type %q is supported with full attention in every layer alone", g.ModelType)
	}
	e := &Experts{
		Count:        c.required("num_experts", mostExperts),
		TopK:         c.required("num_experts_per_tok", mostExperts),
		Intermediate: c.required("moe_intermediate_size", mostWidth),
		Normalise:    c.bool("norm_topk_prob", false),
		Scale:        1,
		Groups:       1,
		TopGroups:    1,
		Sparse:       make([]bool, g.Layers),
	}
	step := c.int("decoder_sparse_step", 1, 1, mostLayers)
	var dense []int
	if c.has("mlp_only_layers") {
		c.decode("mlp_only_layers", "a list of layer numbers", &dense)
	}
	for l := range e.Sparse {
		e.Sparse[l] = (l+1)%step == 0 && !slices.Contains(dense, l)
	}
	checkTopK(c, e)
	g.Experts = e
}

func parseMixtral(c *config, g *Geometry, f *family) {
	parseMistral(c, g, f)
	e := &Experts{
		Count:         c.required("num_local_experts", mostExperts),
		TopK:          c.required("num_experts_per_tok", mostExperts),
		Intermediate:  g.Intermediate,
		Normalise:     true,
		Scale:         1,
		Groups:        1,
		TopGroups:     1,
		Sparse:        slices.Repeat([]bool{true}, g.Layers),
		MixtralNaming: true,
	}
	checkTopK(c, e)
	g.Experts = e
}

func parseDeepSeekV3(c *config, g *Geometry, f *family) {
	m := &MLA{
		QRank:   c.required("q_lora_rank", mostWidth),
		KVRank:  c.required("kv_lora_rank", mostWidth),
		NopeDim: c.required("qk_nope_head_dim", mostHeadDim),
		RopeDim: c.required("qk_rope_head_dim", mostHeadDim),
		VDim:    c.required("v_head_dim", mostHeadDim),
	}
	g.MLA = m
	g.HeadDim = m.NopeDim + m.RopeDim
	if m.RopeDim < 4 || m.RopeDim%2 != 0 {
		c.fail("qk_rope_head_dim", "cannot be rotated in pairs; want an even number from 4")
		m.RopeDim = 4
	}
	// The cache holds one compressed vector per token, whatever the number of KV heads says.
	g.KVHeads = g.Heads
	c.has("head_dim") // written by newer library versions; the parts above decide
	c.has("qk_head_dim")
	g.Rope = parseRope(c, m.RopeDim, f.theta, g.MaxPositions)
	if c.bool("attention_bias", false) {
		c.fail("attention_bias", "biases are not supported for model_type %q", g.ModelType)
	}
	c.has("num_nextn_predict_layers") // extra layers of the checkpoint, not part of the forward pass
	if !c.bool("rope_interleave", true) {
		c.fail("rope_interleave", "only true is supported")
	}
	c.one("scoring_func", "sigmoid")
	c.one("topk_method", "noaux_tc")
	e := &Experts{
		Count:        c.required("n_routed_experts", mostExperts),
		TopK:         c.required("num_experts_per_tok", mostExperts),
		Intermediate: c.required("moe_intermediate_size", mostWidth),
		Shared:       c.int("n_shared_experts", 0, 0, 64),
		Sigmoid:      true,
		Normalise:    c.bool("norm_topk_prob", true),
		Scale:        c.float("routed_scaling_factor", 1),
		Groups:       c.int("n_group", 1, 1, mostExperts),
		TopGroups:    c.int("topk_group", 1, 1, mostExperts),
		Sparse:       make([]bool, g.Layers),
	}
	first := c.int("first_k_dense_replace", 0, 0, mostLayers)
	every := c.int("moe_layer_freq", 1, 1, mostLayers)
	for l := range e.Sparse {
		e.Sparse[l] = l >= first && l%every == 0
	}
	if e.Count%e.Groups != 0 || e.TopGroups > e.Groups || e.TopK > e.Count/e.Groups*e.TopGroups {
		c.fail("n_group", "%d experts in %d groups, %d of them chosen, cannot give %d experts per token",
			e.Count, e.Groups, e.TopGroups, e.TopK)
	}
	g.Experts = e
	parseBlockQuantization(c, g)
}

// checkTopK refuses more experts per token than there are.
func checkTopK(c *config, e *Experts) {
	if e.TopK > e.Count {
		c.fail("num_experts_per_tok", "there are only %d experts", e.Count)
	}
}

// parseBlockQuantization reads DeepSeek's fp8 weights with one scale per block.
func parseBlockQuantization(c *config, g *Geometry) {
	q := c.object("quantization_config")
	if q == nil {
		return
	}
	q.one("quant_method", "fp8")
	q.one("fmt", "e4m3")
	q.one("activation_scheme", "dynamic")
	var block []int
	if !q.has("weight_block_size") {
		q.fail("weight_block_size", "missing")
	} else if q.decode("weight_block_size", "[rows, columns]", &block) {
		if len(block) != 2 || min(block[0], block[1]) < 1 || max(block[0], block[1]) > mostWidth {
			q.fail("weight_block_size", "want [rows, columns]")
		} else {
			g.WeightBlock = [2]int(block)
		}
	}
	q.finish()
}
