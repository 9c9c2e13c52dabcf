package bench

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

// A part of the engine block that cannot be read leaves the parts before it and says what happened. The run goes on, and the merge lists the rank.
func TestProvenanceIsFailSoft(t *testing.T) {
	broken := func(c *Config, f *fake) {
		c.Engine = Provenance(c, Setup{Info: f.Info(), Model: "tiny", DPSize: 2, Sizes: artifact.Sizes{TP: 1, PCP: 1, PP: 1}, Version: "test"}) // no geometry
	}
	for _, c := range []struct {
		name  string
		ranks []int // whose capture fails
	}{{"rank 1", []int{1}}, {"rank 0", []int{0}}, {"both", []int{0, 1}}} {
		outcomes, _ := runAll(t, 2, func(rank int, cfg *Config, f *fake) {
			for _, r := range c.ranks {
				if r == rank {
					broken(cfg, f)
				}
			}
		})
		merged, err := artifact.Merge(documents(t, outcomes), "benchmark_merged.json")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		text, err := json.Marshal(merged)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Engine struct {
				KVCache       *artifact.EngineKVCache `json:"kv_cache"`
				CaptureErrors map[string]string       `json:"capture_errors"`
			}
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		if len(doc.Engine.CaptureErrors) != len(c.ranks) || (doc.Engine.KVCache == nil) != (len(c.ranks) == 2) {
			t.Errorf("%s: capture errors %v, kv_cache %v", c.name, doc.Engine.CaptureErrors, doc.Engine.KVCache)
		}
		for _, rank := range c.ranks {
			e := outcomes[rank].doc.Engine
			if !strings.HasPrefix(e.CaptureError, "kv_cache: ") || e.Versions == nil || e.Attention == nil || e.KVCache != nil || e.Scheduler != nil || e.Resolution != "" {
				t.Errorf("%s: rank %d: %+v", c.name, rank, e)
			}
		}
	}
}

// What was captured whole is compared between the ranks, whichever of them is the first that was.
func TestCapturedEnginesAreCompared(t *testing.T) {
	outcomes, _ := runAll(t, 3, func(rank int, c *Config, f *fake) {
		switch rank {
		case 0:
			c.Engine = Provenance(c, Setup{Info: f.Info(), Sizes: artifact.Sizes{TP: 1, PCP: 1, PP: 1}})
		case 2:
			versions := *c.Engine.Versions
			versions.FPMRun = "other"
			c.Engine.Versions = &versions
		}
	})
	for rank, o := range outcomes {
		if o.err == nil || !strings.Contains(o.err.Error(), `engine.versions.fpmrun is "test" on rank 1 and "other" on rank 2`) {
			t.Errorf("rank %d: %v", rank, o.err)
		}
	}
}
