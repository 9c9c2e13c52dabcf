package gpu

import (
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	sizes := []int{1, 2, 4, 8, 16}
	for _, c := range []struct {
		name   string
		mode   string
		tokens int
		decode bool
		want   Dispatch
	}{
		{"exact capture", "FULL_AND_PIECEWISE", 16, true, Dispatch{GraphFull, 16, 16}},
		{"padded", "FULL_AND_PIECEWISE", 5, true, Dispatch{GraphFull, 5, 8}},
		{"above the largest", "FULL_AND_PIECEWISE", 17, true, Dispatch{GraphNone, 17, 17}},
		{"mixed step", "FULL_AND_PIECEWISE", 5, false, Dispatch{GraphPiecewise, 5, 8}},
		{"prefill without graphs", "FULL_DECODE_ONLY", 5, false, Dispatch{GraphNone, 5, 5}},
		{"decode only", "FULL_DECODE_ONLY", 5, true, Dispatch{GraphFull, 5, 8}},
		{"full prefill", "FULL", 3, false, Dispatch{GraphFull, 3, 4}},
		{"piecewise decode", "PIECEWISE", 3, true, Dispatch{GraphPiecewise, 3, 4}},
		{"off", "NONE", 1, true, Dispatch{GraphNone, 1, 1}},
		{"not set", "", 1, true, Dispatch{GraphNone, 1, 1}},
	} {
		g := GraphConfig{Mode: c.mode, Sizes: sizes}
		if err := g.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := g.Plan(c.tokens, c.decode); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := (GraphConfig{Mode: "FULL"}).Plan(1, true); got.Mode != GraphNone {
		t.Errorf("without captures: %+v", got)
	}
}

func TestGraphConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		cfg  GraphConfig
		want string
	}{
		{GraphConfig{Mode: "full"}, `"full" is not one of`},
		{GraphConfig{Mode: "FULL", Sizes: []int{0, 1}}, "0 is not a positive"},
		{GraphConfig{Mode: "FULL", Sizes: []int{4, 2}}, "2 follows 4"},
	} {
		if err := c.cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.cfg, err, c.want)
		}
	}
}
