package bench

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

func documents(t *testing.T, outcomes []outcome) []*artifact.Document {
	t.Helper()
	docs := make([]*artifact.Document, len(outcomes))
	for rank, o := range outcomes {
		if o.err != nil {
			t.Fatalf("rank %d: %v", rank, o.err)
		}
		text, err := json.Marshal(o.doc)
		if err != nil {
			t.Fatal(err)
		}
		if docs[rank], err = artifact.ParseDocument(artifact.RankPath("benchmark.json", rank), text); err != nil {
			t.Fatal(err)
		}
	}
	return docs
}

func TestRunsOfSeveralRanks(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		outcomes, fakes := runAll(t, n, nil)
		if _, err := artifact.Merge(documents(t, outcomes), "benchmark_merged.json"); err != nil {
			t.Fatalf("%d ranks: %v", n, err)
		}
		for rank, o := range outcomes {
			d := o.doc
			if !d.Valid || d.Coverage.Completed == 0 || d.Coverage.Completed != o.session.plan.Expected {
				t.Errorf("%d ranks: rank %d: valid %v, %+v", n, rank, d.Valid, d.Coverage)
			}
			if (d.Capacity.Common != nil) != (n > 1) {
				t.Errorf("%d ranks: rank %d: agreed capacity %+v", n, rank, d.Capacity.Common)
			}
			last := d.Results[len(d.Results)-1].FPMs[0].Measurement.Raw
			if got, want := last[len(last)-1].Sample.ForwardIndex, len(fakes[rank].steps)-1; got != want {
				t.Errorf("%d ranks: rank %d: last forward_index %d of %d forwards", n, rank, got, want+1)
			}
			if free, usable := o.session.cache.Free(), o.session.cache.Usable(); free != usable {
				t.Errorf("%d ranks: rank %d: %d of %d blocks are free at the end", n, rank, free, usable)
			}
		}
	}
}

// The worked example of the format: five tokens after a prompt of 256 are five forwards, the last of which reads 259.
func TestGlobalWarmup(t *testing.T) {
	outcomes, _ := runAll(t, 1, func(_ int, c *Config, _ *fake) {
		c.MaxModelLen, c.MaxBatchedTokens, c.Mode = 512, 512, artifact.Decode
	})
	r := outcomes[0].doc.Ledger.Records[0]
	if r.Kind != artifact.WarmupGlobal || *r.ForwardIndexStart != 0 || *r.ForwardIndexEnd != 5 || r.ObservedForwardCount != 5 {
		t.Errorf("record %+v", r)
	}
	if r.FirstScheduled.NumPrefillRequests != 1 || r.FirstScheduled.SumPrefillTokens != 256 || r.LastScheduled.NumDecodeRequests != 1 || r.LastScheduled.SumDecodeKVTokens != 259 {
		t.Errorf("first %+v, last %+v", r.FirstScheduled, r.LastScheduled)
	}
	none, _ := runAll(t, 1, func(_ int, c *Config, _ *fake) { c.WarmupIterations = 0 })
	for _, r := range none[0].doc.Ledger.Records {
		if r.Kind == artifact.WarmupGlobal {
			t.Error("a warm-up of no iterations left a record")
		}
	}
}

// Ranks that are configured differently are refused before the first step, with the setting and both values.
func TestDifferentRanksAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"block size", func(c *Config) { c.BlockSize = 32 }, []string{"block_size", "16 on rank 0", "32 on rank 2"}},
		{"content seed", func(c *Config) { c.ContentSeed = "7" }, []string{"content_seed", `"0" on rank 0`, `"7" on rank 2`}},
		{"KV dtype", func(c *Config) {
			cache := *c.Engine.KVCache
			cache.CacheDType = "fp8"
			c.Engine.KVCache = &cache
		}, []string{"engine.kv_cache.cache_dtype", `"float32" on rank 0`, `"fp8" on rank 2`}},
		{"version", func(c *Config) {
			versions := *c.Engine.Versions
			versions.FPMRun = "other"
			c.Engine.Versions = &versions
		}, []string{"engine.versions.fpmrun", `"test" on rank 0`, `"other" on rank 2`}},
		{"mode", func(c *Config) { c.Mode = artifact.Decode }, []string{"config.mode", `"agg" on rank 0`, `"decode" on rank 2`}},
	} {
		outcomes, fakes := runAll(t, 3, func(rank int, cfg *Config, _ *fake) {
			if rank == 2 {
				c.change(cfg)
			}
		})
		for rank, o := range outcomes {
			for _, part := range c.want {
				if o.err == nil || !strings.Contains(o.err.Error(), part) {
					t.Errorf("%s: rank %d: got %v, want %q", c.name, rank, o.err, part)
				}
			}
			if o.doc.Status != "failed" || o.doc.Error == nil || len(fakes[rank].steps) > 0 {
				t.Errorf("%s: rank %d: status %s after %d steps", c.name, rank, o.doc.Status, len(fakes[rank].steps))
			}
		}
	}
}

// A rank that holds less makes the grid smaller for all.
func TestCapacityIsTheSmallest(t *testing.T) {
	outcomes, _ := runAll(t, 2, func(rank int, c *Config, _ *fake) {
		if rank == 1 {
			c.Blocks = 20
		}
	})
	for rank, o := range outcomes {
		if o.err != nil || o.doc.Capacity.Common.Blocks != 19 || o.doc.Limits.NumGPUBlocks != []int{64, 20}[rank] {
			t.Errorf("rank %d: %+v (%v)", rank, o.doc.Capacity.Common, o.err)
		}
	}
	if *outcomes[0].doc.GridDigest != *outcomes[1].doc.GridDigest {
		t.Error("the ranks planned different grids")
	}
}

func TestLogitsThatAreNotFinite(t *testing.T) {
	outcomes, _ := runAll(t, 1, func(_ int, _ *Config, f *fake) { f.infinite = true })
	if o := outcomes[0]; o.err == nil || !strings.Contains(o.err.Error(), "not all finite") || o.doc.Status != "failed" || len(o.doc.Results) != 0 {
		t.Errorf("status %s, %d results, error %v", o.doc.Status, len(o.doc.Results), o.err)
	}
}

// One rank's engine fails: both ranks end with an error and a failed document.
func TestEngineFailure(t *testing.T) {
	broken := errors.New("device lost")
	outcomes, _ := runAll(t, 2, func(rank int, _ *Config, f *fake) {
		if rank == 1 {
			f.fail = broken
		}
	})
	if !errors.Is(outcomes[1].err, broken) || outcomes[0].err == nil {
		t.Errorf("errors %v and %v", outcomes[0].err, outcomes[1].err)
	}
	for rank, o := range outcomes {
		if o.doc.Status != "failed" || o.doc.Valid || o.doc.Usable {
			t.Errorf("rank %d: status %s, valid %v, usable %v", rank, o.doc.Status, o.doc.Valid, o.doc.Usable)
		}
	}
}

// What was dispatched comes from the engine, never from the plan: an engine that is made to launch something else shows as a difference in every
// record, and no point is dropped or corrected for it.
func TestObservedDispatchIsNotThePlan(t *testing.T) {
	for _, c := range []struct {
		graph    gpu.GraphConfig
		wrong    bool   // the engine launches pieces instead of single kernels
		planned  string // of decode points
		observed string
	}{
		{gpu.GraphConfig{Mode: "NONE"}, true, "NONE", "PIECEWISE"},
		{gpu.GraphConfig{Mode: "FULL_DECODE_ONLY", Sizes: []int{1, 2, 4}}, false, "FULL", "NONE"},
		{gpu.GraphConfig{Mode: "FULL_DECODE_ONLY", Sizes: []int{1, 2, 4}}, true, "FULL", "PIECEWISE"},
	} {
		outcomes, _ := runAll(t, 1, func(_ int, cfg *Config, f *fake) { cfg.Graph, f.wrong = c.graph, c.wrong })
		if _, err := artifact.Merge(documents(t, outcomes), "m.json"); err != nil {
			t.Fatal(err)
		}
		decode := 0
		for _, row := range outcomes[0].doc.Results {
			if row.Point.PointType == artifact.Decode {
				decode++
				if row.Point.ExpectedCudagraphMode != c.planned {
					t.Errorf("point %d: planned %s, want %s", row.Point.BenchmarkID, row.Point.ExpectedCudagraphMode, c.planned)
				}
			}
			for _, raw := range row.FPMs[0].Measurement.Raw {
				if got := *raw.Sample.Cudagraph.RuntimeMode; got != c.observed {
					t.Errorf("point %d: observed %s, want %s", row.Point.BenchmarkID, got, c.observed)
				}
			}
		}
		if d := outcomes[0].doc; decode == 0 || len(d.Results) != d.Coverage.Expected {
			t.Errorf("%d of %d points, %d of them decode", len(d.Results), d.Coverage.Expected, decode)
		}
	}
}

func TestStopOfOneRankStopsAll(t *testing.T) {
	outcomes, _ := runAll(t, 3, func(rank int, c *Config, f *fake) {
		c.WarmupIterations = 0
		if rank == 1 {
			f.stopAfter = 3 // steps: in the middle of the run
		}
	})
	for rank, o := range outcomes {
		if o.err != nil || !o.stopped || o.doc.Status != "partial" || len(o.doc.Results) == 0 || len(o.doc.Results) != len(outcomes[0].doc.Results) {
			t.Errorf("rank %d: stopped %v, status %s, %d results (%v)", rank, o.stopped, o.doc.Status, len(o.doc.Results), o.err)
		}
	}
	if _, err := artifact.Merge(documents(t, outcomes), "m.json"); err != nil {
		t.Errorf("partial documents: %v", err)
	}
}

func TestStopBeforeTheFirstPoint(t *testing.T) {
	comms := world(t, 1)
	s, err := New(settings(t), &fake{}, comms[0])
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if doc, _, err := s.Run(t.Context(), "00"); err == nil || doc.Status != "failed" {
		t.Errorf("status %s (%v)", doc.Status, err)
	}
}
