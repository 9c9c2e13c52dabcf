package main

import (
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/rank/env"
)

// Parallelism that the benchmark or the engines do not have is refused by flag, value and reason; all of it at once.
func TestParallelismThatIsRefused(t *testing.T) {
	g, err := model.Load("tiny", nil)
	if err != nil {
		t.Fatal(err)
	}
	const decode = "measures decode steps, which the benchmark does not support with pipeline parallelism"
	for _, c := range []struct {
		name     string
		mode     string
		topology env.Topology
		want     []string // parts of the error; none: accepted
		never    string
	}{
		{"pp, both phases", "agg", env.Topology{DP: 1, PP: 2, PCP: 1, TP: 1}, []string{"--pp 2", "pipeline_parallel_size", "mode agg " + decode, "layers"}, "--pcp"},
		{"pp, decode", "decode", env.Topology{DP: 1, PP: 4, PCP: 1, TP: 2}, []string{"--pp 4", "mode decode " + decode}, "--pcp"},
		{"pp, prefill", "prefill", env.Topology{DP: 1, PP: 2, PCP: 1, TP: 1}, []string{"--pp 2", "no engine here splits a model's layers"}, decode},
		{"pcp", "prefill", env.Topology{DP: 1, PP: 1, PCP: 2, TP: 1}, []string{"--pcp 2", "prefill_context_parallel_size", "no engine here splits a prompt"}, "--pp"},
		{"both", "agg", env.Topology{DP: 1, PP: 2, PCP: 2, TP: 2}, []string{"--pp 2", "--pcp 2"}, "--tp"},
		{"tp and dp", "agg", env.Topology{DP: 2, PP: 1, PCP: 1, TP: 4}, nil, ""},
	} {
		for _, engine := range []string{"cpu", "sim"} {
			o := newOptions()
			o.dtype, o.kvDType, o.mode.Value = "auto", "auto", c.mode
			err := o.supported(engine, g, c.topology)
			if len(c.want) == 0 {
				if err != nil {
					t.Errorf("%s on %s: %v", c.name, engine, err)
				}
				continue
			}
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), c.never) {
					t.Errorf("%s on %s: got %v, want %q and not %q", c.name, engine, err, part, c.never)
				}
			}
		}
	}
}
