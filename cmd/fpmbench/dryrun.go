package main

import (
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
)

// dryRun prints what a run would measure and what it would need.
func (p *program) dryRun(pl *plan) error {
	g := pl.geometry
	weights, pool := pl.memory()
	prefill, decode, replicas := 0, 0, 0
	for i := range pl.grid.Points {
		switch point := &pl.grid.Points[i]; {
		case point.Replica():
			replicas++
		case point.PointType == artifact.Prefill:
			prefill++
		default:
			decode++
		}
	}
	rows := []struct {
		name  string
		value any
	}{
		{"model", pl.model}, {"weights", pl.weights.Kind()}, {"model_type", g.ModelType}, {"parameters", g.Parameters()}, {"layers", g.Layers},
		{"kv bytes per token (bfloat16, tp 1)", g.KVBytesPerToken(2, 1)},
		{"engine", pl.engine}, {"topology", pl.topology},
		{"weight bytes per worker", weights},
		{fmt.Sprintf("kv pool bytes per worker (%d blocks)", pl.bench.Blocks), pool},
		{"max-model-len", pl.bench.MaxModelLen}, {"max-num-batched-tokens", pl.bench.MaxBatchedTokens}, {"max-num-seqs", pl.bench.MaxSeqs},
		{"cudagraph-mode", pl.bench.Graph.Mode}, {"mode", pl.bench.Mode}, {"decode kv", decodeKV(&pl.bench)},
		{"prefill points", prefill}, {"decode points", decode}, {"warm-up replicas", replicas}, {"grid digest", pl.grid.Digest},
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(p.stdout, "%-48s %v\n", r.name, r.value); err != nil {
			return err
		}
	}
	if pl.cannot != nil {
		_, err := fmt.Fprintf(p.stdout, "%-48s %v\n", "cannot run here", pl.cannot)
		return err
	}
	return nil
}
