package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/model"
)

func TestCase13RouterWeights(t *testing.T) {
	for _, c := range []struct {
		name, overrides string
		want            []float64
	}{
		{"mixtral-8x7b", `{"num_local_experts":4}`, []float64{0.731059, 0.268941}},
		{"qwen3-30b-a3b", `{"num_experts":4,"num_experts_per_tok":2,"norm_topk_prob":true}`, []float64{0.731059, 0.268941}},
		{"qwen3-30b-a3b", `{"num_experts":4,"num_experts_per_tok":2,"norm_topk_prob":false}`, []float64{0.643914, 0.236883}},
	} {
		e := geometry(t, c.name, c.overrides).Experts
		ids, weights := make([]int32, e.TopK), make([]float32, e.TopK)
		chooseExperts(e, []float32{2, 1, 0, -1}, ids, weights)
		if !slices.Equal(ids, []int32{0, 1}) {
			t.Errorf("%s %s: experts %v, want 0 and 1", c.name, c.overrides, ids)
		}
		for k, w := range c.want {
			if math.Abs(float64(weights[k])-w) > 1e-6 {
				t.Errorf("%s %s: weights %v, want %v", c.name, c.overrides, weights, c.want)
			}
		}
	}
}

// With a bias of -2 every score that chooses is negative: a group that was dropped must not win because its scores became 0.
func TestCase14GroupedGate(t *testing.T) {
	e := &model.Experts{Count: 8, TopK: 2, Groups: 4, TopGroups: 2, Sigmoid: true, Normalise: true, Scale: 2.5}
	logits := []float32{1, .5, 0, -.5, -1, 2, 0, 0}
	bias := slices.Repeat([]float32{-2}, 8)
	ids, weights := make([]int32, 2), make([]float32, 2)
	chooseGroupedExperts(e, slices.Clone(logits), bias, make([]float32, 8), ids, weights)
	if !slices.Equal(ids, []int32{5, 0}) {
		t.Errorf("experts %v, want 5 and 0", ids)
	}
	for k, want := range []float64{1.366122, 1.133878} {
		if math.Abs(float64(weights[k])-want) > 1e-6 {
			t.Errorf("weight of expert %d is %v, want %v: from the score without bias, normalised, times 2.5", ids[k], weights[k], want)
		}
	}
	// Not normalised, the factor still applies.
	e.Normalise = false
	chooseGroupedExperts(e, slices.Clone(logits), bias, make([]float32, 8), ids, weights)
	if want := 2.5 / (1 + math.Exp(-2)); math.Abs(float64(weights[0])-want) > 1e-6 {
		t.Errorf("weight %v without normalisation, want %v", weights[0], want)
	}
}

func TestGroupedGateTiesAndFaults(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name          string
		groups, top   int
		logits, bias  []float32
		want          []int32
		mayBeInfinite bool
	}{
		{"equal groups and experts: the lowest win", 4, 2, make([]float32, 8), make([]float32, 8), []int32{0, 1, 2}, false},
		{"the bias chooses", 4, 2, make([]float32, 8), []float32{0, 0, 0, 0, 0, 0, 1, 1}, []int32{6, 7, 0}, false},
		{"no groups", 1, 1, []float32{0, 1, 2, 3, 4, 5, 6, 7}, make([]float32, 8), []int32{7, 6, 5}, false},
		{"groups of one", 8, 3, []float32{7, 6, 5, 4, 3, 2, 1, 0}, make([]float32, 8), []int32{0, 1, 2}, false},
		{"one not a number", 4, 2, []float32{0, nan, 0, 0, 0, 0, 0, 0}, make([]float32, 8), nil, true},
		{"none a number", 4, 2, slices.Repeat([]float32{nan}, 8), make([]float32, 8), nil, true},
	} {
		e := &model.Experts{Count: 8, TopK: 3, Groups: c.groups, TopGroups: c.top, Sigmoid: true, Normalise: true, Scale: 1}
		ids, weights := make([]int32, 3), make([]float32, 3)
		chooseGroupedExperts(e, c.logits, c.bias, make([]float32, 8), ids, weights)
		if c.want != nil && !slices.Equal(ids, c.want) {
			t.Errorf("%s: experts %v, want %v", c.name, ids, c.want)
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(ids))); len(distinct) != 3 || distinct[0] < 0 || distinct[2] > 7 {
			t.Errorf("%s: experts %v, want three different ones", c.name, ids)
		}
		if !c.mayBeInfinite && !allFinite(weights) {
			t.Errorf("%s: weights %v", c.name, weights)
		}
	}
}

func TestRouterTiesAndFaults(t *testing.T) {
	e := &model.Experts{Count: 4, TopK: 3, Normalise: true, Scale: 1}
	nan := float32(math.NaN())
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name   string
		logits []float32
		want   []int32
		finite bool
	}{
		{"equal scores: the lowest wins", []float32{1, 1, 1, 1}, []int32{0, 1, 2}, true},
		{"best first", []float32{0, 3, -2, 5}, []int32{3, 1, 0}, true},
		{"scores that vanish are still chosen once each", []float32{-1e4, -1e4, 0, -1e4}, []int32{2, 0, 1}, true},
		{"one not a number", []float32{0, nan, 0, 0}, nil, false},
		{"one infinite", []float32{0, inf, 0, 0}, nil, false},
	} {
		ids, weights := make([]int32, 3), make([]float32, 3)
		chooseExperts(e, slices.Clone(c.logits), ids, weights)
		if c.want != nil && !slices.Equal(ids, c.want) {
			t.Errorf("%s: experts %v, want %v", c.name, ids, c.want)
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(ids))); len(distinct) != 3 || distinct[0] < 0 || distinct[2] > 3 {
			t.Errorf("%s: experts %v, want three different ones", c.name, ids)
		}
		if allFinite(weights) != c.finite {
			t.Errorf("%s: weights %v, want finite %v", c.name, weights, c.finite)
		}
	}
}
