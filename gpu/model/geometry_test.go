package model

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func load(t *testing.T, name, overrides string) *Geometry {
	t.Helper()
	g, err := Load(name, []byte(overrides))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func shape(t *testing.T, g *Geometry, name string) []int {
	t.Helper()
	for tensor := range g.Tensors() {
		if tensor.Name == name {
			return tensor.Shape
		}
	}
	t.Fatalf("%s has no tensor %s", g.Name, name)
	return nil
}

func TestCase01Totals(t *testing.T) {
	for _, c := range []struct {
		name       string
		parameters int64
		kvBytes    int64
	}{
		{"llama-3.1-8b", 8_030_261_248, 131_072},
		{"llama-3.1-70b", 70_553_706_496, 327_680},
		{"qwen2.5-7b", 7_615_616_512, 57_344},
		{"qwen3-0.6b", 596_049_920, 114_688},
		{"qwen3-8b", 8_190_735_360, 147_456},
		{"qwen3-30b-a3b", 30_532_122_624, 98_304},
		{"mistral-7b-v0.1", 7_241_732_096, 131_072},
		{"mistral-nemo-2407", 12_247_782_400, 163_840},
		{"mixtral-8x7b-v0.1", 46_702_792_704, 131_072},
		{"mixtral-8x7b", 46_702_792_704, 131_072},
		{"deepseek-v3", 671_026_419_200, 70_272},
	} {
		g := load(t, c.name, "")
		if got := g.Parameters(); got != c.parameters {
			t.Errorf("%s: %d parameters, want %d", c.name, got, c.parameters)
		}
		if got := g.KVBytesPerToken(2, 1); got != c.kvBytes {
			t.Errorf("%s: %d KV bytes per token, want %d", c.name, got, c.kvBytes)
		}
	}
	g := load(t, "qwen3-0.6b", "")
	if got := shape(t, g, "model.layers.0.self_attn.q_proj.weight"); !slices.Equal(got, []int{2048, 1024}) {
		t.Errorf("qwen3-0.6b q_proj %v, want [2048 1024]: head_dim of the file beats hidden/heads", got)
	}
	if got := shape(t, g, "model.layers.0.self_attn.o_proj.weight"); !slices.Equal(got, []int{1024, 2048}) {
		t.Errorf("qwen3-0.6b o_proj %v, want [1024 2048]", got)
	}
	if got := load(t, "qwen3-30b-a3b", "").KVBytesPerToken(2, 8); got != 24_576 {
		t.Errorf("qwen3-30b-a3b at TP 8: %d KV bytes per token and rank, want 24576: one replicated head", got)
	}
	if got := shape(t, load(t, "deepseek-v3", ""), "model.layers.60.self_attn.kv_a_proj_with_mqa.weight"); !slices.Equal(got, []int{576, 7168}) {
		t.Errorf("deepseek-v3 kv_a_proj_with_mqa %v, want [576 7168]", got)
	}
}

func TestPresets(t *testing.T) {
	names := Presets()
	for _, want := range []string{"tiny", "tiny-moe", "llama-3.1-8b", "llama-3.1-70b", "qwen3-0.6b", "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3"} {
		if !slices.Contains(names, want) {
			t.Errorf("preset %q is missing in %v", want, names)
		}
	}
	if slices.Contains(names, "gemma-2-9b") {
		t.Error("gemma-2-9b is listed but cannot be loaded")
	}
	if g := load(t, "tiny", ""); g.HeadDim != 64 || g.MaxPositions != 4096 {
		t.Errorf("tiny has head size %d, %d positions, want 64, 4096", g.HeadDim, g.MaxPositions)
	}
}

func TestFamilies(t *testing.T) {
	for _, c := range []struct {
		name      string
		overrides string
		check     func(*Geometry) bool
		want      string
	}{
		{"llama-3.1-8b", "", func(g *Geometry) bool { return !g.QKVBias && !g.OutBias && !g.MLPBias && !g.QKNorm }, "no bias, no q/k norm"},
		{"qwen2.5-7b", "", func(g *Geometry) bool { return g.QKVBias && !g.OutBias }, "biases on q, k and v only"},
		{"qwen2.5-7b", "", func(g *Geometry) bool { return g.Windows[27] == 0 }, "no window: it is switched off"},
		{"qwen2.5-7b", `{"use_sliding_window":true,"max_window_layers":20}`,
			func(g *Geometry) bool { return g.Windows[19] == 0 && g.Windows[20] == 131072 }, "a window from layer 20 on"},
		{"mistral-7b-v0.1", "", func(g *Geometry) bool { return g.Windows[0] == 4096 && g.Windows[31] == 4096 }, "a window in all layers"},
		{"mistral-nemo-2407", "", func(g *Geometry) bool { return g.Windows[0] == 0 && g.HeadDim == 128 }, "no window, head size 128"},
		{"mixtral-8x7b", "", func(g *Geometry) bool { return g.Windows[0] == 0 && g.Experts.Normalise }, "no window, normalised weights"},
		{"qwen3-8b", `{"num_hidden_layers":2,"sliding_window":8,"use_sliding_window":true,"layer_types":["full_attention","sliding_attention"]}`,
			func(g *Geometry) bool { return g.Windows[0] == 0 && g.Windows[1] == 8 }, "layer_types obeyed"},
		{"qwen3-0.6b", "", func(g *Geometry) bool { return g.Tied && g.QKNorm }, "tied embedding, q/k norm"},
		{"qwen3-30b-a3b", `{"mlp_only_layers":[1],"num_hidden_layers":4,"decoder_sparse_step":1}`,
			func(g *Geometry) bool { return g.IsSparse(0) && !g.IsSparse(1) && g.IsSparse(2) }, "layer 1 dense"},
		{"deepseek-v3", "", func(g *Geometry) bool { return !g.IsSparse(2) && g.IsSparse(3) && g.Experts.Shared == 1 }, "three dense layers"},
		{"deepseek-v3", "", func(g *Geometry) bool { return g.WeightBlock == [2]int{128, 128} }, "fp8 blocks of 128 x 128"},
		{"llama-3.1-8b", `{"head_dim":null,"num_key_value_heads":null,"attn_logit_softcapping":null,"partial_rotary_factor":1.0}`,
			func(g *Geometry) bool { return g.HeadDim == 128 && g.KVHeads == 32 }, "null is absent"},
		{"llama-3.1-8b", `{"bos_token_id":1,"transformers_version":"4.40.0","use_cache":true,"attention_dropout":0.0}`,
			func(g *Geometry) bool { return g.Layers == 32 }, "keys that cannot matter are ignored"},
	} {
		if g := load(t, c.name, c.overrides); !c.check(g) {
			t.Errorf("%s %s: want %s", c.name, c.overrides, c.want)
		}
	}
}

// Each key is honoured or refused by name and value; none is ignored.
func TestCase06Refusals(t *testing.T) {
	for _, c := range []struct {
		name      string
		overrides string
		want      []string
	}{
		{"gemma-2-9b", "", []string{`"model_type"`, "gemma2"}},
		{"phi-3-mini-4k", "", []string{`"model_type"`, "phi3"}},
		{"llama-3.1-8b", `{"attn_logit_softcapping":50.0}`, []string{"attn_logit_softcapping", "50.0"}},
		{"llama-3.1-8b", `{"final_logit_softcapping":30.0}`, []string{"final_logit_softcapping", "30.0"}},
		{"llama-3.1-8b", `{"partial_rotary_factor":0.5}`, []string{"partial_rotary_factor", "0.5"}},
		{"llama-3.1-8b", `{"rope_scaling":{"rope_type":"longrope"}}`, []string{"rope_scaling.rope_type", "longrope"}},
		{"llama-3.1-8b", `{"layer_types":["chunked_attention"],"num_hidden_layers":1}`, []string{"layer_types", "chunked_attention"}},
		{"llama-3.1-8b", `{"attention_chunk_size":8192}`, []string{"attention_chunk_size", "8192"}},
		{"llama-3.1-8b", `{"sliding_window":4096}`, []string{"sliding_window", "4096"}},
		{"llama-3.1-8b", `{"some_new_feature":[1,2]}`, []string{"some_new_feature", "[1,2]"}},
		{"llama-3.1-8b", `{"rope_scaling":{"surprise":3}}`, []string{"rope_scaling.surprise", "3"}},
		{"llama-3.1-8b", `{"hidden_act":"gelu"}`, []string{"hidden_act", "gelu"}},
		{"llama-3.1-8b", `{"architectures":["LlamaForSequenceClassification"]}`, []string{"architectures", "LlamaForSequenceClassification"}},
		{"llama-3.1-8b", `{"quantization_config":{"quant_method":"awq"}}`, []string{"quantization_config", "awq"}},
		{"llama-3.1-8b", `{"num_attention_heads":33}`, []string{"num_attention_heads", "33"}},
		{"llama-3.1-8b", `{"num_key_value_heads":5}`, []string{"num_key_value_heads", "5"}},
		{"llama-3.1-8b", `{"hidden_size":0}`, []string{"hidden_size", "0"}},
		{"llama-3.1-8b", `{"hidden_size":1e3}`, []string{"hidden_size", "1e3"}},
		{"llama-3.1-8b", `{"hidden_size":null}`, []string{"hidden_size", "missing"}},
		{"llama-3.1-8b", `{"rms_norm_eps":-1}`, []string{"rms_norm_eps", "-1"}},
		{"llama-3.1-8b", `{"torch_dtype":"int8"}`, []string{"torch_dtype", "int8"}},
		{"qwen2.5-7b", `{"use_mrope":true}`, []string{"use_mrope", "true"}},
		{"qwen2.5-7b", `{"attention_bias":false}`, []string{"attention_bias", "false"}},
		{"mistral-7b-v0.1", `{"attention_bias":true}`, []string{"attention_bias", "true"}},
		{"qwen3-30b-a3b", `{"num_experts_per_tok":129}`, []string{"num_experts_per_tok", "129"}},
		{"qwen3-30b-a3b", `{"use_sliding_window":true}`, []string{"use_sliding_window", "true"}},
		{"deepseek-v3", `{"scoring_func":"softmax"}`, []string{"scoring_func", "softmax"}},
		{"deepseek-v3", `{"n_group":7}`, []string{"n_group", "7"}},
		{"llama-3.1-8b", `[1]`, []string{"--hf-overrides"}},
		{"no-such-model", "", []string{"no-such-model", "tiny"}},
	} {
		_, err := Load(c.name, []byte(c.overrides))
		var usage *ConfigError
		if !errors.As(err, &usage) {
			t.Errorf("%s %s: error %v, want a ConfigError", c.name, c.overrides, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s %s: error %q does not name %s", c.name, c.overrides, err, w)
			}
		}
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	_, err := Load("tiny", []byte(`{"surprise":1,"hidden_act":"relu","vocab_size":-1}`))
	for _, w := range []string{"surprise", "hidden_act", "vocab_size"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v does not name %s", err, w)
		}
	}
}

func TestOverridesMerge(t *testing.T) {
	g := load(t, "llama-3.1-8b", `{"num_hidden_layers":2,"rope_scaling":{"factor":4.0}}`)
	if g.Layers != 2 || g.Rope.Factor != 4 || g.Rope.LowFreq != 1 {
		t.Errorf("layers %d, factor %v, low_freq_factor %v, want 2, 4, 1", g.Layers, g.Rope.Factor, g.Rope.LowFreq)
	}
	if g := load(t, "llama-3.1-8b", `{"rope_scaling":null}`); g.Rope.Type != RopeDefault {
		t.Errorf("rope type %q after removing rope_scaling, want default", g.Rope.Type)
	}
}
