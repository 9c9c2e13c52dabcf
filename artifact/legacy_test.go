package artifact

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// legacy takes the evidence away that earlier versions of the format did not have.
func legacy(d map[string]any) {
	delete(d, "measurement_protocol")
	delete(d, "warmup_evidence")
	eachRecord(d, func(f map[string]any) { delete(f, "benchmark_measurement") })
}

// eachRecord calls change for every retained record of a document.
func eachRecord(d map[string]any, change func(fpm map[string]any)) {
	for i := range d["iteration_groups"].([]any) {
		for rank := range at(d, "iteration_groups", i)["rank_results"].([]any) {
			change(at(d, "iteration_groups", i, "rank_results", rank, "fpms", 0))
		}
		change(at(d, "results", i, "fpms", 0))
	}
}

// Documents of earlier versions merge among themselves, and not with others.
func TestMergeLegacySets(t *testing.T) {
	withoutContract := func(d map[string]any) { // a protocol, but no evidence of single steps
		delete(at(d, "measurement_protocol"), "execution_evidence")
		delete(d, "warmup_evidence")
		eachRecord(d, func(f map[string]any) {
			for _, raw := range at(f, "benchmark_measurement")["raw_fpms"].([]any) {
				delete(at(raw), "benchmark_sample")
			}
		})
	}
	for _, c := range []struct {
		name   string
		change [2]func(d map[string]any) // nil leaves the document
		want   string                    // part of the error; empty: they merge
	}{
		{"both without a protocol", [2]func(map[string]any){legacy, legacy}, ""},
		{"both without evidence of single steps", [2]func(map[string]any){withoutContract, withoutContract}, ""},
		{"one without a protocol", [2]func(map[string]any){nil, legacy}, "measurement protocol mismatch"},
		{"the first without a protocol", [2]func(map[string]any){legacy, nil}, "measurement protocol mismatch"},
		{"one without evidence of single steps", [2]func(map[string]any){nil, withoutContract}, "measurement protocol mismatch"},
		{"evidence without a protocol", [2]func(map[string]any){
			func(d map[string]any) { delete(d, "measurement_protocol"); delete(d, "warmup_evidence") },
			func(d map[string]any) { delete(d, "measurement_protocol"); delete(d, "warmup_evidence") },
		}, "measurement evidence has no shared protocol"},
		{"samples without a contract", [2]func(map[string]any){
			func(d map[string]any) {
				delete(at(d, "measurement_protocol"), "execution_evidence")
				delete(d, "warmup_evidence")
			},
			func(d map[string]any) {
				delete(at(d, "measurement_protocol"), "execution_evidence")
				delete(d, "warmup_evidence")
			},
		}, "no declared contract"},
	} {
		paths := written(t, run(t, 2))
		for i, change := range c.change {
			if change != nil {
				edit(t, paths[i], change)
			}
		}
		merged, err := mergeFiles(t, paths)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		doc := asTree(t, merged)
		_, ledgers := doc["rank_warmup_evidence"]
		if _, own := doc["warmup_evidence"]; own || ledgers {
			t.Errorf("%s: the merged document has ledgers", c.name)
		}
		if len(doc["results"].([]any)) != 6 || doc["engine"] == nil {
			t.Errorf("%s: %d rows", c.name, len(doc["results"].([]any)))
		}
	}
}

// Deep equality is that of values: 1 is 1.0, the order of members does not matter, and absent is not null.
func TestDeepEquality(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[1,2]}`, `{ "b": [1.0, 2e0], "a": 1.0 }`, true},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`1`, `true`, false},
		{`"1"`, `1`, false},
		{`[1,2]`, `[2,1]`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`0.1`, `0.10000000000000001`, true},
		{`"é"`, `"\u00e9"`, true},
		{`null`, `null`, true},
	} {
		if got := equalRaw(json.RawMessage(c.a), json.RawMessage(c.b)); got != c.want {
			t.Errorf("%s and %s: equal is %v", c.a, c.b, got)
		}
	}
	paths := written(t, run(t, 2))
	edit(t, paths[1], func(d map[string]any) { // numbers written in another way
		at(d, "iteration_groups", 0, "point")["batch_size"] = json.Number("2.0")
		at(d, "results", 0, "point")["batch_size"] = json.Number("2.0")
	})
	if _, err := mergeFiles(t, paths); err != nil {
		t.Errorf("2 and 2.0: %v", err)
	}
}

// What counts as the identity of an engine, and how a difference is named.
func TestEngineIdentity(t *testing.T) {
	set := func(path []any, key string, value any) func(e map[string]any) {
		return func(e map[string]any) { at(e, path...)[key] = value }
	}
	for _, c := range []struct {
		name   string
		change func(e map[string]any) // of rank 1's block
		want   string                 // part of the error; empty: they are one
	}{
		{"resolved", set(nil, "resolved", map[string]any{}), ""},
		{"resolution", set(nil, "resolution", "x"), ""},
		{"resolved_scope", set(nil, "resolved_scope", "x"), ""},
		{"worker_probe", set(nil, "worker_probe", map[string]any{}), ""},
		{"attention.backend_resolved", set([]any{"attention"}, "backend_resolved", "x"), ""},
		{"attention.mla_prefill_backend_resolved", set([]any{"attention"}, "mla_prefill_backend_resolved", "x"), ""},
		{"attention.resolution", set([]any{"attention"}, "resolution", "x"), ""},
		{"parallel.data_parallel_rank", set([]any{"parallel"}, "data_parallel_rank", json.Number("7")), ""},
		{"attention.backend_requested", set([]any{"attention"}, "backend_requested", "x"), "engine provenance mismatch: attention (rank 0)"},
		{"two differences, the first in order", func(e map[string]any) { e["versions"], e["scheduler"] = nil, nil }, "engine provenance mismatch: scheduler (rank 0)"},
		{"null for absent", func(e map[string]any) { e["quantization"] = nil }, "engine provenance mismatch: <top-level key set> (rank 0)"},
	} {
		paths := written(t, run(t, 2))
		edit(t, paths[1], func(d map[string]any) { c.change(at(d, "engine")) })
		_, err := mergeFiles(t, paths)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	// Without a clean block the first degraded one stands, and without any block there is none.
	for _, c := range []struct {
		name   string
		change func(d map[string]any, rank int)
		want   string
	}{
		{"all degraded", func(d map[string]any, rank int) {
			at(d, "engine")["capture_error"] = []any{"x", json.Number("1")}[rank]
		}, "map[0:x 1:1]"},
		{"all missing", func(d map[string]any, _ int) { delete(d, "engine") }, ""},
		{"a string for a block", func(d map[string]any, rank int) {
			if rank == 1 {
				d["engine"] = "x"
			}
		}, "map[1:missing engine block]"},
	} {
		paths := written(t, run(t, 2))
		for rank, path := range paths {
			edit(t, path, func(d map[string]any) { c.change(d, rank) })
		}
		merged, err := mergeFiles(t, paths)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		engine, ok := asTree(t, merged)["engine"].(map[string]any)
		if got := sprint(engine["capture_errors"]); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s: engine %v, capture_errors %s, want %q", c.name, ok, got, c.want)
		}
		if ok && at(engine, "parallel")["data_parallel_rank"] != nil {
			t.Errorf("%s: the block names a rank", c.name)
		}
	}
}

// The verdicts of a rank document follow from what is in it.
func TestFinish(t *testing.T) {
	started := "2026-10-10T00:00:00Z"
	for _, c := range []struct {
		name          string
		change        func(r *Rank)
		expected      int
		stopped       bool
		failure       error
		status        string
		valid, usable bool
	}{
		{"complete", nil, 3, false, nil, "complete", true, true},
		{"stopped", nil, 4, true, nil, "partial", false, true},
		{"stopped after the last point", nil, 3, true, nil, "complete", true, true},
		{"failed", nil, 3, false, errBoom, "failed", false, false},
		{"failed while stopping", nil, 4, true, errBoom, "failed", false, false},
		{"skipped", func(r *Rank) { r.Skipped = []Skipped{{}} }, 4, false, nil, "complete", false, false},
		{"phase without points", func(r *Rank) { r.MissingPhases = []string{Decode} }, 3, false, nil, "complete", false, false},
		{"group of some ranks", func(r *Rank) { r.Groups[1].Complete = false }, 3, false, nil, "complete", false, false},
		{"no end", func(r *Rank) { r.Timing.CompletedAt = nil }, 3, false, nil, "complete", false, false},
		{"more measured than elapsed", func(r *Rank) { r.Timing.Elapsed = 0.001 }, 3, false, nil, "complete", false, false},
		{"nothing", func(r *Rank) { r.Results, r.Groups = nil, nil }, 0, false, nil, "complete", true, false},
	} {
		r := run(t, 1)[0]
		r.Timing.StartedAt = &started
		if c.change != nil {
			c.change(r)
		}
		r.StopReason, r.Error = nil, nil
		r.Finish(c.expected, c.stopped, c.failure)
		if r.Status != c.status || r.Valid != c.valid || r.Usable != c.usable {
			t.Errorf("%s: %s, valid %v, usable %v", c.name, r.Status, r.Valid, r.Usable)
		}
		if (r.StopReason != nil) != (c.status == "partial") || (r.Error != nil) != (c.failure != nil) {
			t.Errorf("%s: stop_reason %v, error %v", c.name, r.StopReason, r.Error)
		}
	}
}

var errBoom = errors.New("boom")

// A regime and its stamp tell one story, it fits the phase, and a coordinate is measured once.
func TestRegimeRules(t *testing.T) {
	point := func(i int, regime string, reasons ...any) func(d map[string]any) {
		return func(d map[string]any) {
			for _, p := range []map[string]any{at(d, "results", i, "point"), at(d, "iteration_groups", i, "point")} {
				p["sample_reasons"] = append([]any{}, reasons...)
			}
			at(d, "results", i)["kv_seed_regime"] = regime
			for _, f := range []map[string]any{at(d, "results", i, "fpms", 0), at(d, "iteration_groups", i, "rank_results", 0, "fpms", 0)} {
				at(f, "benchmark_measurement", "preparation")["kv_seed_regime"] = regime
			}
		}
	}
	warm := func(d map[string]any) {
		d["kvwarm"] = map[string]any{"enabled": true, "warm_eligible": true, "skip_reason": nil}
	}
	for _, c := range []struct {
		name   string
		change func(d map[string]any)
		want   string // part of a violation; empty: none
	}{
		{"real KV", func(d map[string]any) { point(1, RegimeRealKV, ReasonRealKV)(d); warm(d) }, ""},
		{"real KV without a warm-up", point(1, RegimeRealKV, ReasonRealKV), "needs a kvwarm block"},
		{"real KV without its stamp", func(d map[string]any) { point(1, RegimeRealKV)(d); warm(d) }, "kvwarm_real_kv belongs to"},
		{"stamp without real KV", point(1, RegimeLegacy, ReasonRealKV), "kvwarm_real_kv belongs to"},
		{"fallback", func(d map[string]any) { point(1, RegimeFakeFallback, ReasonFakeFallback)(d); warm(d) }, ""},
		{"decode with a prefix", point(1, RegimeRealPrefix, ReasonRealSeed), "a regime of prefill points"},
		{"prefill with a fallback", point(0, RegimeFakeFallback, ReasonFakeFallback), "a regime of decode points"},
		{"fake prefix without KV", point(0, RegimeFakePrefix, ReasonFakePrefix), "reads no KV tokens"},
		{"skip with a reason", point(1, RegimeSkip+"dense_model_content_insensitive"), ""},
		{"eligible with a reason", func(d map[string]any) {
			d["kvwarm"] = map[string]any{"enabled": true, "warm_eligible": true, "skip_reason": "x"}
		}, "an eligible warm-up has none"},
		{"not eligible without a reason", func(d map[string]any) {
			d["kvwarm"] = map[string]any{"enabled": true, "warm_eligible": false, "skip_reason": nil}
		}, "needs a skip_reason"},
	} {
		paths := written(t, run(t, 1))
		edit(t, paths[0], c.change)
		var found []string
		for _, v := range CheckFiles(paths)[0].Violations {
			found = append(found, v.String())
		}
		if all := strings.Join(found, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s: %s, want %q", c.name, all, c.want)
		}
	}
}

// Readers refuse a coordinate that stands twice, unless its contexts were clamped or it is a prefill without KV once with and once without real prefixes.
func TestCoordinateOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		at      coordinate
		regimes [2]string
		clamped [2]bool
		labels  [2]string
		want    bool
	}{
		{"decode twice", coordinate{Decode, 2, 0, 64}, [2]string{RegimeLegacy, RegimeLegacy}, [2]bool{}, [2]string{}, true},
		{"decode, one clamped", coordinate{Decode, 2, 0, 64}, [2]string{RegimeLegacy, RegimeLegacy}, [2]bool{false, true}, [2]string{}, false},
		{"decode, both clamped", coordinate{Decode, 2, 0, 64}, [2]string{RegimeLegacy, RegimeLegacy}, [2]bool{true, true}, [2]string{}, false},
		{"prefill without KV, both ways", coordinate{Prefill, 2, 8, 0}, [2]string{RegimeNotApplicable, RegimeRealPrefix}, [2]bool{}, [2]string{}, false},
		{"prefill without KV twice", coordinate{Prefill, 2, 8, 0}, [2]string{RegimeNotApplicable, RegimeNotApplicable}, [2]bool{}, [2]string{}, true},
		{"prefill with KV, both ways", coordinate{Prefill, 2, 8, 32}, [2]string{RegimeFakePrefix, RegimeRealPrefix}, [2]bool{}, [2]string{}, true},
		{"prefill without KV, both ways, otherwise labelled", coordinate{Prefill, 2, 8, 0}, [2]string{RegimeNotApplicable, RegimeRealPrefix}, [2]bool{}, [2]string{"NONE", "FULL"}, true},
	} {
		var found violations
		rules := regimeRules{rows: map[coordinate][]seenRow{}}
		n := root(map[string]any{}, &found)
		for i := range 2 {
			rules.once(n, c.at, seenRow{i + 1, c.regimes[i], c.labels[i], c.clamped[i]})
		}
		if (len(found) > 0) != c.want {
			t.Errorf("%s: %v", c.name, found)
		}
	}
}
