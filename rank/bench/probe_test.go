package bench

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/rank/env"
)

// Two DP ranks of 2x2x2 workers, faked, since no engine splits layers or prompts. Every worker knows its place by the formulas of
// the format, which are those of the world's order, and the views of the merged document and of each rank find all of them.
func TestProbeOfEveryParallelDimension(t *testing.T) {
	sizes := artifact.Sizes{TP: 2, PCP: 2, PP: 2}
	topology := env.Topology{DP: 2, PP: sizes.PP, PCP: sizes.PCP, TP: sizes.TP}
	g, err := model.Load("tiny", nil)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, _ := runAll(t, topology.DP, func(_ int, c *Config, f *fake) {
		c.Engine = Provenance(c, Setup{Info: f.Info(), Geometry: g, Model: "tiny", DPSize: topology.DP, Sizes: sizes, Version: "test"})
	})
	merged, err := artifact.Merge(documents(t, outcomes), "benchmark_merged.json")
	if err != nil {
		t.Fatal(err)
	}
	graph := gpu.GraphConfig{Mode: "NONE"}
	for _, c := range []struct {
		name       string
		stage      func(pp int) string // layer that a pipeline stage holds
		backend    func(pp int) string
		resolution string
		disagree   []string
	}{
		// Layers of different stages are not compared; a layer that two stages claim is.
		{"stages hold different layers", func(pp int) string { return fmt.Sprintf("layers.%d", pp) }, func(int) string { return "fake" }, "worker_probe", []string{}},
		{"stages disagree on one layer", func(int) string { return "layers.0" }, func(pp int) string { return fmt.Sprintf("fake%d", pp) }, "worker_probe_mixed", []string{"attention_backends"}},
	} {
		comms := world(t, topology.Ranks())
		for rank, comm := range comms {
			place, worker := topology.Place(rank), rank%sizes.Workers()
			if tp, pcp, pp := sizes.Place(worker); place != (env.Coordinates{DP: rank / sizes.Workers(), PP: pp, PCP: pcp, TP: tp}) {
				t.Fatalf("rank %d is at %+v in the world and at tp %d, pcp %d, pp %d in its engine", rank, place, tp, pcp, pp)
			}
			info := gpu.Info{LayerBackends: map[string]string{c.stage(place.PP): c.backend(place.PP)}}
			if err := comm.Handle(ProbeMethod, ProbeHandler(info, graph, place.DP, worker, sizes)); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for _, comm := range comms[1:] {
			wg.Go(func() { comm.Ready() })
		}
		wg.Wait()
		sidecar, err := artifact.NewSidecar(merged, probe(t.Context(), comms[0]), "")
		if err != nil {
			t.Fatal(err)
		}
		views := map[string]artifact.View{"merged": sidecar.Merged, "0": sidecar.Ranks["0"].View, "1": sidecar.Ranks["1"].View}
		for name, v := range views {
			want := 16
			if name != "merged" {
				want = sizes.Workers()
			}
			coverage := v.WorkerProbe.Coverage
			if v.Resolution != c.resolution || !coverage.Complete || len(coverage.ObservedWorkers) != want || len(v.WorkerProbe.Responses) != 16 ||
				!slices.Equal(v.WorkerProbe.Disagreements, c.disagree) {
				t.Errorf("%s: view %s: %s, complete %v, %d workers, %d replies, disagreements %v", c.name, name, v.Resolution, coverage.Complete,
					len(coverage.ObservedWorkers), len(v.WorkerProbe.Responses), v.WorkerProbe.Disagreements)
			}
			for _, w := range coverage.ObservedWorkers {
				if n := w.WorkerRank; w.TPRank != n%2 || *w.PCPRank != n/2%2 || *w.PPRank != n/4 || name != "merged" && fmt.Sprint(w.DPRank) != name {
					t.Errorf("%s: view %s: worker %+v at pcp %d, pp %d", c.name, name, w, *w.PCPRank, *w.PPRank)
				}
			}
		}
	}
}
