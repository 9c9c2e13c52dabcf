package artifact

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func smallLimits() *Limits {
	return &Limits{MaxModelLen: 64, MaxTokens: 32, MaxRunning: 4, BlockSize: 16, Blocks: 20, BlocksWatermark: 20, PrefixCaching: true}
}

var wide = Samples{PrefillNewTokens: 64, PrefillKVTokens: 16, PrefillBatches: 3, DecodeKVTokens: 128, DecodeBatches: 128}

func shapes(points []Point) string {
	var b strings.Builder
	for _, p := range points {
		fmt.Fprintf(&b, "%d/%d/%d ", p.BatchSize, p.TotalPrefillTokens, p.TotalKVReadTokens)
	}
	return strings.TrimSpace(b.String())
}

// Worked by hand: 32 and 16 new tokens with batches 1, 2 and 4; KV in whole blocks of 16, at most 63 tokens a prompt.
func TestPrefillGrid(t *testing.T) {
	l := smallLimits()
	s := wide
	s.PrefillNewTokens = 2 // of the axis 1, 2, 4, 8, 16, 32 the ends
	got := shapes(l.PrefillGrid(s))
	want := "4/32/192 4/32/128 4/32/64 4/32/0 2/32/64 2/32/32 2/32/0 1/32/16 1/32/0 1/1/48 1/1/32 1/1/16 1/1/0"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	l.PrefixCaching = false
	if got, want := shapes(l.PrefillGrid(s)), "4/32/0 2/32/0 1/32/0 1/1/0"; got != want {
		t.Errorf("without prefix caching: got %s, want %s", got, want)
	}
}

// Worked by hand: a context of at most 62 tokens; totals below two tokens a request read two each.
func TestDecodeGrid(t *testing.T) {
	l := smallLimits()
	s := wide
	s.DecodeBatches = 2
	got := shapes(l.DecodeGrid(s))
	want := "1/0/2 1/0/4 1/0/8 1/0/16 1/0/32 1/0/62 4/0/8 4/0/16 4/0/32 4/0/64 4/0/128 4/0/248"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for k, steady := range map[int]int{4: 8, 5: 8, 7: 8, 8: 8, 9: 9} {
		if got := SteadyKV(k, 4); got != steady {
			t.Errorf("SteadyKV(%d, 4) = %d, want %d", k, got, steady)
		}
	}
}

func TestGridPointsFit(t *testing.T) {
	for _, blocks := range []int{1, 3, 7, 40} {
		l := smallLimits()
		l.Blocks, l.BlocksWatermark = blocks, max(0, blocks-1)
		for _, p := range append(l.PrefillGrid(wide), l.DecodeGrid(wide)...) {
			if err := l.Feasible(&p); err != nil {
				t.Errorf("%d blocks: %+v: %v", blocks, p, err)
			}
		}
	}
}

func TestPlanQueue(t *testing.T) {
	l := smallLimits()
	l.DecodeGraph = Graph{Mode: "FULL", Captures: []int{1, 2}}
	m := &Manifest{
		Prefill: []Point{{PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 8, SampleReasons: []string{ReasonExplicit}},
			{PointType: Prefill, BatchSize: 2, TotalPrefillTokens: 8, SampleReasons: []string{ReasonExplicit}}},
		Decode: []Point{{PointType: Decode, BatchSize: 2, TotalKVReadTokens: 32, SampleReasons: []string{ReasonExplicit}},
			{PointType: Decode, BatchSize: 3, TotalKVReadTokens: 32, SampleReasons: []string{ReasonExplicit}},
			{PointType: Decode, BatchSize: 4, TotalKVReadTokens: 32, SampleReasons: []string{ReasonExplicit}}},
	}
	plan, err := NewPlan(l, Request{Mode: "agg", Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan.Points {
		got = append(got, fmt.Sprintf("%d %s%d %s %s", p.BenchmarkID, p.PointType[:1], p.Driver(), p.ExpectedCudagraphMode, strings.Join(p.SampleReasons, "+")))
	}
	want := []string{
		"6 p8 NONE eager_warmup", // one replica for the two points of eight tokens
		"1 p8 NONE explicit+cudagraph_disabled+geometric_axis",
		"2 p8 NONE explicit+cudagraph_disabled+geometric_axis",
		"7 d3 NONE eager_warmup",
		"8 d4 NONE eager_warmup",
		"3 d2 FULL explicit+capture+post_capture",
		"4 d3 NONE explicit+post_capture+eager_tail+geometric_tail",
		"5 d4 NONE explicit+eager_tail+engine_limit",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if plan.Expected != 5 || len(plan.MissingPhases) != 0 {
		t.Errorf("expected %d points, missing %v", plan.Expected, plan.MissingPhases)
	}
	if d, _ := GridDigest(plan.Points); d != plan.Digest {
		t.Error("the digest is not that of the queue")
	}
}

func TestPlanRefusesWhatDoesNotFit(t *testing.T) {
	m := &Manifest{Prefill: []Point{{PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 8}, {PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 33}}}
	_, err := NewPlan(smallLimits(), Request{Mode: "prefill", Manifest: m})
	if err == nil || !strings.Contains(err.Error(), "prefill[1]") || !strings.Contains(err.Error(), "max_num_batched_tokens 32") {
		t.Errorf("got %v", err)
	}
	plan, err := NewPlan(smallLimits(), Request{Mode: "decode", Manifest: m})
	if err != nil || !slices.Equal(plan.MissingPhases, []string{Decode}) {
		t.Errorf("a phase without points: %v (%v)", plan, err)
	}
}

func TestPlanImbalanced(t *testing.T) {
	text, err := os.ReadFile("testdata/points-mixed.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	l := &Limits{MaxModelLen: 512, MaxTokens: 256, MaxRunning: 8, BlockSize: 16, Blocks: 256, BlocksWatermark: 254, PrefixCaching: true}
	plan, err := NewPlan(l, Request{Mode: "agg", Manifest: m})
	if err != nil || plan.Imbalanced != 2 || plan.Expected != 9 {
		t.Errorf("dropped %d, kept %d (%v), want 2 and 9", plan.Imbalanced, plan.Expected, err)
	}
	plan, err = NewPlan(l, Request{Mode: "agg", Manifest: m, CollectImbalanced: true})
	if err != nil || plan.Expected != 11 {
		t.Errorf("kept %d (%v), want all 11", plan.Expected, err)
	}
}
