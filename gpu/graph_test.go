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

// Captures up to 16 and at most 20 sequences: 17 to 20 are planned without a graph, and that is known before the run.
func TestCase23BatchesAboveTheLargestCapture(t *testing.T) {
	g := GraphConfig{Mode: "FULL_DECODE_ONLY", Sizes: []int{1, 2, 4, 8, 16}}
	if got, want := g.Plan(16, true), (Dispatch{GraphFull, 16, 16}); got != want {
		t.Errorf("16 sequences: %+v, want %+v", got, want)
	}
	if got, want := g.Plan(17, true), (Dispatch{GraphNone, 17, 17}); got != want {
		t.Errorf("17 sequences: %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		cfg     GraphConfig
		maxSeqs int
		want    int
	}{
		{g, 20, 17}, {g, 16, 0}, {g, 3, 0},
		{GraphConfig{Mode: "NONE", Sizes: g.Sizes}, 20, 0},
		{GraphConfig{Mode: "FULL"}, 20, 1},
	} {
		if got := c.cfg.Uncovered(c.maxSeqs); got != c.want {
			t.Errorf("%+v with %d sequences: without a graph from %d on, want %d", c.cfg, c.maxSeqs, got, c.want)
		}
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
