package cpu

import (
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// The softmax scale has YaRN's factor. One key hides the fault: its weight is 1 whatever the scale.
func TestCase04SoftmaxScale(t *testing.T) {
	g := geometry(t, "deepseek-v3", deepseekCut)
	cfg := config(g)
	w := start(t, cfg, 1)
	tokens := prompt(g, 1, 40)
	right := (&reference{g: g, src: cfg.Weights, t: t}).logits(tokens, 0)
	wrong := (&reference{g: g, src: cfg.Weights, t: t, plainScale: true}).logits(tokens, 0)
	for _, n := range []int{1, 2, 40} {
		w.run(0, w.open(nil, n), tokens[:n], 0)
		w.near("right scale", 0, right[n-1], 1e-5)
		d := distance(w.logits(0), wrong[n-1])
		if n == 1 && d > 1e-5 {
			t.Errorf("one key: distance %.3g to the pass with the plain scale, want none", d)
		}
		if n == 40 && d < 1e-4 {
			t.Errorf("%d keys: distance %.3g to the pass with the plain scale: the comparison cannot tell the scales apart", n, d)
		}
	}
}

// Dense layers first, then routed experts beside one shared expert of weight 1; the factor on the routed ones applies
// whether or not their weights are normalised.
func TestCase15Layers(t *testing.T) {
	full := geometry(t, "deepseek-v3", "")
	want := map[string][]int{
		"model.layers.2.mlp.gate_proj.weight":                {18432, 7168},
		"model.layers.3.mlp.gate.weight":                     {256, 7168},
		"model.layers.60.mlp.experts.255.down_proj.weight":   {7168, 2048},
		"model.layers.3.mlp.shared_experts.gate_proj.weight": {2048, 7168},
	}
	for tensor := range full.Tensors() {
		if shape, ok := want[tensor.Name]; ok && slices.Equal(shape, tensor.Shape) {
			delete(want, tensor.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("deepseek-v3 has no %v", want)
	}
	for _, normalise := range []string{"true", "false"} {
		g := geometry(t, "deepseek-v3", deepseekCut[:len(deepseekCut)-1]+`,"norm_topk_prob":`+normalise+`}`)
		cfg := config(g)
		tokens := prompt(g, 1, 24)
		ref := (&reference{g: g, src: cfg.Weights, t: t}).logits(tokens, 0)[23]
		w := start(t, cfg, 1)
		w.run(0, w.open(nil, 24), tokens, 0)
		w.near("norm_topk_prob "+normalise, 0, ref, 1e-5)

		halved := (&reference{g: g, src: scaled{cfg.Weights, model.LayerPrefix(1) + "mlp.shared_experts.down_proj.weight", 0.4}, t: t}).logits(tokens, 0)[23]
		if d := distance(w.logits(0), halved); d < 1e-3 {
			t.Errorf("distance %.3g to the pass whose shared expert has weight 0.4: the comparison cannot tell them apart", d)
		}
	}
}

// scaled is a source with one tensor times a factor.
type scaled struct {
	model.Source
	name   string
	factor float32
}

func (s scaled) Fill(name string, r model.Rect, dst []float32) error {
	err := s.Source.Fill(name, r, dst)
	if name == s.name {
		for i := range dst {
			dst[i] *= s.factor
		}
	}
	return err
}
