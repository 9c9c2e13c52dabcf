package main

import (
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/rank/bench"
	"github.com/fpmrun/fpmrun/rank/env"
)

func TestExpertParallelFlag(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string // part of the error; empty: accepted
	}{
		{"one rank", []string{"--model", "tiny-moe", "--expert-parallel"}, ""},
		{"the name of the serving engine", []string{"--model", "tiny-moe", "--enable-expert-parallel"}, ""},
		{"dense", []string{"--expert-parallel"}, `--expert-parallel: model tiny (model_type "llama") has no routed experts`},
		{"sim", []string{"--model", "tiny-moe", "--expert-parallel", "--engine", "sim"}, "--expert-parallel: the sim engine does not model the exchange"},
	} {
		code, _, stderr := dry(t, nil, c.args...)
		if c.want == "" && code != 0 || c.want != "" && (code != 2 || !strings.Contains(stderr, c.want)) {
			t.Errorf("%s: status %d, want an error with %q\n%s", c.name, code, c.want, stderr)
		}
	}
}

// More ranks than experts are refused before anything is made; what a rank holds is its experts and its share of the rest.
func TestExpertsOverRanks(t *testing.T) {
	g, err := model.Load("tiny-moe", nil)
	if err != nil {
		t.Fatal(err)
	}
	held := func(dp, tp int, expertParallel bool) (int64, error) {
		pl := &plan{engine: "cpu", geometry: g, topology: env.Topology{DP: dp, PP: 1, PCP: 1, TP: tp}, bench: bench.Config{Blocks: 2, BlockSize: 16, ExpertParallel: expertParallel}}
		weights, _ := pl.memory()
		return weights, pl.fits(0, dp*tp)
	}
	if _, err := held(16, 1, true); err == nil || !strings.Contains(err.Error(), "8 experts are fewer than ep 16 (--expert-parallel)") {
		t.Errorf("16 ranks for 8 experts: %v", err)
	}
	whole, routed := 4*g.Parameters(), 4*routedParameters(g)
	// 2 layers of 8 experts with three matrices of 256 x 128.
	if routed != 4*2*8*3*256*128 {
		t.Errorf("the experts take %d bytes", routed)
	}
	for _, c := range []struct {
		dp, tp         int
		expertParallel bool
		want           int64
	}{
		{4, 1, false, whole}, {2, 2, false, whole / 2}, {1, 1, true, whole},
		{4, 1, true, whole - routed + routed/4}, {2, 2, true, (whole-routed)/2 + routed/4}, {1, 4, true, (whole-routed)/4 + routed/4},
	} {
		if got, err := held(c.dp, c.tp, c.expertParallel); err != nil || got != c.want {
			t.Errorf("dp %d, tp %d, expert parallel %v: %d bytes (%v), want %d", c.dp, c.tp, c.expertParallel, got, err, c.want)
		}
	}
}

// Why decode runs over synthetic KV: the first of the format's reasons that holds.
func TestSkipReason(t *testing.T) {
	for _, c := range []struct {
		model                         string
		expertParallel, noPrefixCache bool
		want                          string
	}{
		{"tiny", false, true, "dense_model_content_insensitive"},
		{"tiny-moe", false, true, "moe_tp_balanced_by_construction"},
		{"tiny-moe", true, true, "prefix_caching_disabled"},
		{"tiny-moe", true, false, "tokenizer_unavailable: none"},
	} {
		g, err := model.Load(c.model, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := newOptions()
		o.expertParallel, o.noPrefixCaching = c.expertParallel, c.noPrefixCache
		if got := o.skipReason(g, nil, "tokenizer_unavailable: none"); got != c.want || !strings.HasPrefix(artifact.RegimeSkip+got, "skip:") {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
