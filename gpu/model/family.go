package model

import (
	"maps"
	"slices"
)

// family is what a model_type means beyond the keys of its configuration.
type family struct {
	architecture string
	theta        float64 // rope_theta when absent
	eps          float64 // rms_norm_eps when absent
	kvHeads      int     // num_key_value_heads when absent; 0 means as many as query heads
	headDim      int     // head_dim when absent; 0 means hidden size / heads
	window       int     // sliding_window when absent; 0 means none
	parse        func(c *config, g *Geometry, f *family)
}

// families are the supported model types.
var families = map[string]*family{
	"llama":       {architecture: "LlamaForCausalLM", theta: 1e4, eps: 1e-6, parse: parseLlama},
	"mistral":     {architecture: "MistralForCausalLM", theta: 1e4, eps: 1e-6, kvHeads: 8, window: 4096, parse: parseMistral},
	"qwen2":       {architecture: "Qwen2ForCausalLM", theta: 1e4, eps: 1e-6, kvHeads: 32, parse: parseQwen2},
	"qwen3":       {architecture: "Qwen3ForCausalLM", theta: 1e4, eps: 1e-6, kvHeads: 32, headDim: 128, parse: parseQwen3},
	"qwen3_moe":   {architecture: "Qwen3MoeForCausalLM", theta: 1e4, eps: 1e-6, kvHeads: 4, parse: parseQwen3MoE},
	"mixtral":     {architecture: "MixtralForCausalLM", theta: 1e6, eps: 1e-5, kvHeads: 8, parse: parseMixtral},
	"deepseek_v3": {architecture: "DeepseekV3ForCausalLM", theta: 1e4, eps: 1e-6, parse: parseDeepSeekV3},
}

// Most values of keys that sizes are multiplied from, so that no product leaves an int64.
const (
	mostLayers    = 1 << 10
	mostWidth     = 1 << 18
	mostVocab     = 1 << 24
	mostHeads     = 1 << 14
	mostHeadDim   = 1 << 12
	mostExperts   = 1 << 12
	mostPositions = 1 << 30
)

// parse turns the keys of a configuration into a geometry.
func parse(c *config) (*Geometry, error) {
	kind := c.text("model_type", "")
	f, ok := families[kind]
	if !ok {
		c.fail("model_type", "this model family is not supported; supported are %q", slices.Sorted(maps.Keys(families)))
		return nil, c.err()
	}
	var arch []string
	if c.has("architectures") && c.decode("architectures", "a list of names", &arch) && !slices.Equal(arch, []string{f.architecture}) {
		c.fail("architectures", "want [%q] for model_type %q", f.architecture, kind)
	}
	g := &Geometry{
		Name:      c.name,
		ModelType: kind, Architecture: f.architecture,
		Layers:       c.required("num_hidden_layers", mostLayers),
		Hidden:       c.required("hidden_size", mostWidth),
		Intermediate: c.required("intermediate_size", mostWidth),
		Vocab:        c.required("vocab_size", mostVocab),
		Heads:        c.required("num_attention_heads", mostHeads),
		MaxPositions: c.required("max_position_embeddings", mostPositions),
		NormEps:      c.float("rms_norm_eps", f.eps),
		InitRange:    c.float("initializer_range", 0.02),
		Tied:         c.bool("tie_word_embeddings", false),
	}
	g.DType = parseDType(c)
	c.one("hidden_act", "silu")
	kv := f.kvHeads
	if kv == 0 || c.present("num_key_value_heads") && !c.has("num_key_value_heads") {
		kv = g.Heads
	}
	g.KVHeads = c.int("num_key_value_heads", kv, 1, mostHeads)
	g.Windows = make([]int, g.Layers)
	f.parse(c, g, f)
	c.finish()
	if err := c.err(); err != nil {
		return nil, err
	}
	return g, nil
}

// parseDType reads the type of the published weights, under its old or its new key.
func parseDType(c *config) string {
	key := "torch_dtype"
	if !c.has(key) {
		key = "dtype"
	}
	c.one(key, "bfloat16", "float16", "float32")
	return c.text(key, "bfloat16")
}

// parseAttention reads grouped-query attention's head size and rotary embedding.
func parseAttention(c *config, g *Geometry, f *family) {
	def := f.headDim
	if def == 0 || c.present("head_dim") && !c.has("head_dim") {
		def = g.Hidden / g.Heads
		if !c.has("head_dim") && g.Hidden%g.Heads != 0 {
			c.fail("num_attention_heads", "hidden_size %d does not divide by it and there is no head_dim", g.Hidden)
		}
	}
	g.HeadDim = c.int("head_dim", def, 1, mostHeadDim)
	if g.HeadDim < 4 || g.HeadDim%2 != 0 {
		c.fail("head_dim", "a head of %d values cannot be rotated in pairs; want an even number from 4", g.HeadDim)
		g.HeadDim = 4
	}
	if g.Heads%g.KVHeads != 0 {
		c.fail("num_key_value_heads", "num_attention_heads %d does not divide by %d", g.Heads, g.KVHeads)
	}
	g.Rope = parseRope(c, g.HeadDim, f.theta, g.MaxPositions)
}

// layerTypes reads layer_types, which says for each layer whether it uses the window. Without the key,
// sliding(layer) decides.
func layerTypes(c *config, g *Geometry, window int, sliding func(layer int) bool) {
	var types []string
	if c.has("layer_types") && c.decode("layer_types", "a list of names", &types) {
		if len(types) != g.Layers {
			c.fail("layer_types", "%d entries for num_hidden_layers %d", len(types), g.Layers)
			return
		}
		for i, t := range types {
			if t != "full_attention" && t != "sliding_attention" {
				c.fail("layer_types", "layer %d: attention type %q is not supported", i, t)
				return
			}
			if t == "sliding_attention" && window == 0 {
				c.fail("layer_types", "layer %d slides but no window is switched on by sliding_window", i)
				return
			}
		}
		sliding = func(layer int) bool { return types[layer] == "sliding_attention" }
	}
	for l := range g.Windows {
		if sliding(l) {
			g.Windows[l] = window
		}
	}
}

func never(int) bool  { return false }
func always(int) bool { return true }

func parseLlama(c *config, g *Geometry, f *family) {
	parseAttention(c, g, f)
	bias := c.bool("attention_bias", false)
	g.QKVBias, g.OutBias = bias, bias
	g.MLPBias = c.bool("mlp_bias", false)
	layerTypes(c, g, 0, never)
}

func parseMistral(c *config, g *Geometry, f *family) {
	parseAttention(c, g, f)
	window := f.window
	if c.present("sliding_window") {
		window = c.int("sliding_window", 0, 1, mostPositions)
	}
	layerTypes(c, g, window, always)
}

// parseQwenWindow reads Qwen's window, which needs a switch and spares the first max_window_layers layers.
func parseQwenWindow(c *config, g *Geometry) {
	on := c.bool("use_sliding_window", false)
	window := c.int("sliding_window", 4096, 1, mostPositions)
	first := c.int("max_window_layers", 28, 0, mostLayers)
	if !on {
		window = 0
	}
	layerTypes(c, g, window, func(layer int) bool { return window > 0 && layer >= first })
}

func parseQwen2(c *config, g *Geometry, f *family) {
	parseAttention(c, g, f)
	g.QKVBias = true
	if !c.bool("attention_bias", true) {
		c.fail("attention_bias", "model_type %q always has q, k and v biases", g.ModelType)
	}
	parseQwenWindow(c, g)
}

func parseQwen3(c *config, g *Geometry, f *family) {
	parseAttention(c, g, f)
	bias := c.bool("attention_bias", false)
	g.QKVBias, g.OutBias = bias, bias
	g.QKNorm = true
	parseQwenWindow(c, g)
}
