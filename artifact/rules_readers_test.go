package artifact

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// told is everything that a check says of a file.
func told(r *Report) string {
	var lines []string
	for _, v := range r.Violations {
		lines = append(lines, v.String())
	}
	return strings.Join(lines, "\n")
}

// expect compares what is said with a part of it; empty: nothing is said.
func expect(t *testing.T, name, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// Rules of single readers that neither the merge nor the others have.
func TestRulesOfSingleReaders(t *testing.T) {
	type doc = map[string]any
	fpm := func(d doc) doc { return at(d, "iteration_groups", 0, "rank_results", 0, "fpms", 0) }
	last := func(d doc) int {
		n, _ := at(fpm(d), "benchmark_measurement", "raw_fpms", 0, "benchmark_sample")["forward_index"].(json.Number).Int64()
		return int(n)
	}
	// prepared adds a preparation between the first point and the second, which begins at a forward.
	prepared := func(from int) func(d doc) {
		return func(d doc) {
			start := last(d) + from
			at(d, "warmup_evidence")["records"] = append(at(d, "warmup_evidence")["records"].([]any), doc{
				"kind": WarmupEagerShape, "requested_shape": doc{}, "status": "failed", "forward_index_start": start, "forward_index_end": start, "completed_points_before": 1,
				"observed_forward_count": 0, "first_scheduled_requests": nil, "last_scheduled_requests": nil, "validation": doc{"status": "failed", "reason": "shape"}})
			for i := range 2 {
				at(d, "iteration_groups", i+1, "rank_results", 0, "fpms", 0, "benchmark_measurement", "preparation")["warmup_records_before"] = 2
			}
		}
	}
	const record = "$.iteration_groups[0].rank_results[0].fpms[0]"
	for _, c := range []struct {
		name   string
		change func(d doc)
		want   string
	}{
		{"nothing", func(doc) {}, ""},
		{"record of another version", func(d doc) { fpm(d)["version"] = 2 }, record + ".version: want 1, got 2"},
		{"a number for a worker", func(d doc) { fpm(d)["worker_id"] = 7 }, record + ".worker_id: want a string, got 7"},
		{"text for a variance", func(d doc) { at(fpm(d), "scheduled_requests")["var_prefill_length"] = "0.0" }, record + ".scheduled_requests.var_prefill_length: want a number"},
		{"a float for a queued count", func(d doc) {
			at(fpm(d), "queued_requests")["num_decode_requests"] = json.Number("0.0")
		}, record + ".queued_requests.num_decode_requests: want an integer, got 0.0"},
		{"less than none queued", func(d doc) { at(fpm(d), "queued_requests")["sum_prefill_tokens"] = -1 }, record + ".queued_requests.sum_prefill_tokens: want an integer of at least 0"},
		{"a list of queued requests", func(d doc) { fpm(d)["queued_requests"] = []any{} }, record + ".queued_requests: want an object"},
		{"members that are absent", func(d doc) { delete(fpm(d), "queued_requests"); delete(fpm(d), "version") }, ""},
		{"empty limits", func(d doc) { d["limits"] = doc{} }, "$.limits: empty"},
		{"eligible as text", func(d doc) { d["kvwarm"] = doc{"enabled": false, "warm_eligible": "no", "skip_reason": "flag_off"} }, "$.kvwarm.warm_eligible: want true or false"},
		{"switched off, not eligible, no reason", func(d doc) { d["kvwarm"] = doc{"enabled": false, "warm_eligible": false, "skip_reason": nil} }, "needs a skip_reason"},
		{"switched off with a reason", func(d doc) { d["kvwarm"] = doc{"enabled": false, "warm_eligible": nil, "skip_reason": "flag_off"} }, ""},
		{"prepared after the point before", prepared(1), ""},
		{"prepared during the point before", prepared(0), "warmup_records_before: record 1 began at forward"},
	} {
		paths := written(t, run(t, 1))
		edit(t, paths[0], func(d doc) {
			c.change(d)
			for i := range d["results"].([]any) {
				at(d, "results", i)["fpms"] = at(d, "iteration_groups", i, "rank_results", 0)["fpms"]
			}
		})
		expect(t, c.name, told(&CheckFiles(paths)[0]), c.want)
	}
}

// Ranks whose points had their KV in different ways merge, but readers refuse the set.
func TestRanksPreparedDifferently(t *testing.T) {
	warm := func(eligible bool, reason any) func(d map[string]any) {
		return func(d map[string]any) {
			d["kvwarm"] = map[string]any{"enabled": true, "warm_eligible": eligible, "skip_reason": reason}
		}
	}
	regime := func(rank int) func(d map[string]any) {
		return func(d map[string]any) {
			at(d, "iteration_groups", 1, "rank_results", 1, "fpms", 0, "benchmark_measurement", "preparation")["kv_seed_regime"] = RegimeUnstamped
			if rank == 1 {
				at(d, "results", 1)["kv_seed_regime"] = RegimeUnstamped
				at(d, "results", 1)["fpms"] = at(d, "iteration_groups", 1, "rank_results", 1)["fpms"]
			}
		}
	}
	for _, c := range []struct {
		name   string
		change [2]func(d map[string]any)
		want   string
	}{
		{"the same", [2]func(map[string]any){warm(false, "flag_off"), warm(false, "flag_off")}, ""},
		{"one eligible", [2]func(map[string]any){warm(false, "peer_ineligible"), warm(true, nil)}, "$.kvwarm.warm_eligible: true, but rank 0"},
		{"two reasons", [2]func(map[string]any){warm(false, "flag_off"), warm(false, "dataset_empty")}, `$.kvwarm.skip_reason: "dataset_empty", but rank 0`},
		{"one without", [2]func(map[string]any){warm(true, nil), func(map[string]any) {}}, "$.kvwarm: present here or in rank 0"},
		{"two regimes at a point", [2]func(map[string]any){regime(0), regime(1)}, `$.results[1].kv_seed_regime: "unstamped", but rank 0`},
	} {
		paths := written(t, run(t, 2))
		for rank, path := range paths {
			edit(t, path, c.change[rank])
		}
		reports := CheckFiles(paths)
		expect(t, c.name, told(&reports[0])+told(&reports[1]), c.want)
		if _, err := mergeFiles(t, paths); err != nil {
			t.Errorf("%s: merge: %v", c.name, err)
		}
	}
}

// Readers know files by their names before they read them.
func TestNamesThatReadersKnow(t *testing.T) {
	paths := written(t, run(t, 2))
	sidecar := filepath.Join(t.TempDir(), "sidecar.json")
	view := `{"resolution": "worker_probe_unobserved", "worker_probe": {"schema_version": 1, "responses": [], "coverage": {"complete": false}}}`
	if err := os.WriteFile(sidecar, fmt.Appendf(nil, `{"schema": %q, "schema_version": 1, "run_id": "a", "merged_output_path": "m", "rank_files": [], "ranks": {}, "merged": %s}`, SidecarSchema, view), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, name, want string }{
		{paths[1], "benchmark_dp1.json", ""},
		{paths[1], "elsewhere.json", ""},
		{paths[1], "a_dp.json", ""},
		{paths[1], "benchmark_dp0.json", `rank 1 in a file of rank 0 by its name, "benchmark_dp0.json"`},
		{paths[1], "benchmark_dp10.json", "rank 1 in a file of rank 10"},
		{paths[0], "benchmark_merged.json", "for a merged document"},
		{paths[0], "benchmark_merged_worker_probe.json", "for a worker-probe document"},
		{sidecar, "benchmark_merged_worker_probe.json", ""},
		{sidecar, "probe.json", ""},
		{sidecar, "benchmark_probe.json", "for a rank's document"},
	} {
		text, err := os.ReadFile(c.from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		expect(t, c.name, told(&CheckFiles([]string{path})[0]), c.want)
	}
}

// What collectors demand beyond the format.
func TestDemand(t *testing.T) {
	partial := func(d map[string]any) {
		d["status"], d["stop_reason"], d["valid"], at(d, "coverage")["expected_points"] = "partial", "timeout", false, 4
	}
	decode := func(spread bool, warm map[string]any) func(d map[string]any) {
		return func(d map[string]any) {
			at(d, "engine", "parallel")["enable_expert_parallel"] = spread
			if warm != nil {
				d["kvwarm"] = warm
			}
			at(d, "config")["mode"] = Decode
		}
	}
	for _, c := range []struct {
		name   string
		mode   string
		change func(d map[string]any)
		want   string // among what is said
	}{
		{"complete", "", func(map[string]any) {}, ""},
		{"mode agg", "agg", func(map[string]any) {}, ""},
		{"partial", "", partial, `$.status: want "complete": collectors take no part of a run`},
		{"another mode", Prefill, func(map[string]any) {}, `$.config.mode: want "prefill", got "agg"`},
		{"spread experts without computed KV", Decode, decode(true, map[string]any{"enabled": true, "warm_eligible": false, "skip_reason": "dataset_empty"}),
			`$.kvwarm.warm_eligible: want true for decode with expert parallelism, got false (skip_reason "dataset_empty")`},
		{"spread experts, no block", Decode, decode(true, nil), "$.kvwarm: missing"},
	} {
		paths := written(t, run(t, 1))
		edit(t, paths[0], c.change)
		r := CheckFiles(paths)[0]
		r.Demand(c.mode)
		expect(t, c.name, told(&r), c.want)
	}
	for name, warm := range map[string]map[string]any{"spread experts": {"enabled": true, "warm_eligible": true, "skip_reason": nil}, "dense": nil} {
		paths := written(t, run(t, 1))
		edit(t, paths[0], decode(warm != nil, warm))
		r := CheckFiles(paths)[0]
		r.Demand(Decode)
		if said := told(&r); strings.Contains(said, "kvwarm") || strings.Contains(said, "config.mode") {
			t.Errorf("%s: %s", name, said)
		}
	}
}
