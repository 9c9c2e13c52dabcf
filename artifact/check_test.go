package artifact

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the merge lets pass and the readers do not.
func TestCheckFindsWhatReadersRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(doc map[string]any)
		path   string // of a violation
	}{
		{"whole float for an id", func(d map[string]any) { at(d, "iteration_groups", 1)["benchmark_id"] = json.Number("2.0") }, "$.iteration_groups[1].benchmark_id"},
		{"bool for a batch size", func(d map[string]any) { at(d, "iteration_groups", 0, "point")["batch_size"] = true }, "$.iteration_groups[0].point.batch_size"},
		{"string for a counter", func(d map[string]any) { at(d, "iteration_groups", 0, "rank_results", 0, "fpms", 0)["counter_id"] = "1" }, "$.iteration_groups[0].rank_results[0].fpms[0].counter_id"},
		{"exponent in a total", func(d map[string]any) {
			at(d, "iteration_groups", 2, "point")["total_kv_read_tokens"] = json.Number("1e3")
		}, "$.iteration_groups[2].point.total_kv_read_tokens"},
		{"string NaN", func(d map[string]any) {
			at(d, "iteration_groups", 0, "rank_results", 0, "fpms", 0)["wall_time"] = "NaN"
		}, "$.iteration_groups[0].rank_results[0].fpms[0].wall_time"},
		{"point of the other phase", func(d map[string]any) { at(d, "config")["mode"] = "prefill" }, "$.iteration_groups[1].point.point_type"},
		{"sums are not the coordinate", func(d map[string]any) {
			at(d, "iteration_groups", 2, "rank_results", 0, "fpms", 0, "scheduled_requests")["sum_decode_kv_tokens"] = 127
		}, "$.iteration_groups[2].rank_results[0].fpms[0].scheduled_requests.sum_decode_kv_tokens"},
		{"rank in a rank document's point", func(d map[string]any) { at(d, "results", 0, "point")["dp_rank"] = 0 }, "$.results[0].point.dp_rank"},
		{"stamp of another regime", func(d map[string]any) { at(d, "results", 0, "point")["sample_reasons"] = []any{ReasonFakePrefix} }, "$.results[0].point.sample_reasons"},
		{"aggregate of other prompts", func(d map[string]any) {
			at(d, "iteration_groups", 0, "rank_results", 0, "fpms", 0, "benchmark_measurement", "prompts")["sha256"] = strings.Repeat("0", 64)
		}, "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.prompts.sha256"},
		{"position in results", func(d map[string]any) {
			at(d, "iteration_groups", 1, "rank_results", 0, "fpms", 0, "benchmark_measurement", "preparation")["completed_points_before"] = 0
		}, "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.preparation.completed_points_before"},
		{"no limits", func(d map[string]any) { delete(d, "limits") }, "$.limits"},
		{"async scheduling unknown", func(d map[string]any) { at(d, "engine")["scheduler"] = map[string]any{} }, "$.engine.scheduler.async_scheduling"},
		{"no missing_phases", func(d map[string]any) { delete(d, "missing_phases") }, "$.missing_phases"},
		{"not usable", func(d map[string]any) { d["usable"] = false }, "$.usable"},
		{"timing not valid", func(d map[string]any) { d["timing_valid"] = false }, "$.timing_valid"},
		{"nothing expected", func(d map[string]any) { at(d, "coverage")["expected_points"] = 0 }, "$.coverage"},
		{"another ledger kind", func(d map[string]any) { at(d, "warmup_evidence", "records", 0)["kind"] = "other" }, "$.warmup_evidence.records[0].kind"},
		{"eighth member of the contract", func(d map[string]any) { at(d, "measurement_protocol", "execution_evidence")["x"] = 1 }, "$.measurement_protocol.execution_evidence.x"},
	} {
		paths := written(t, run(t, 1))
		edit(t, paths[0], c.change)
		r := CheckFiles(paths)[0]
		found := false
		for _, v := range r.Violations {
			found = found || v.Path == c.path
		}
		if !found {
			t.Errorf("%s: no violation at %s: %v", c.name, c.path, r.Violations)
		}
	}
}

func TestCheckNotReady(t *testing.T) {
	paths := written(t, run(t, 2))
	whole, err := os.ReadFile(paths[1])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"half": whole[:len(whole)/2], "empty": nil, "between two results": whole[:strings.Index(string(whole), `"iteration_groups"`)]} {
		if err := os.WriteFile(paths[1], text, 0o644); err != nil {
			t.Fatal(err)
		}
		if r := CheckFiles(paths)[1]; !r.NotReady {
			t.Errorf("%s: %v", name, r.Violations)
		}
	}
	if r := CheckFiles([]string{filepath.Join(t.TempDir(), "none.json")})[0]; !r.NotReady {
		t.Errorf("absent: %v", r.Violations)
	}
	if err := os.WriteFile(paths[1], []byte(strings.Replace(string(whole), `"wall_time": 0`, `"wall_time": NaN`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := CheckFiles(paths)[1]; r.NotReady || r.Good() || !strings.Contains(r.Violations[0].Message, "byte") {
		t.Errorf("bare NaN: %+v", r)
	}
}

func TestCheckSet(t *testing.T) {
	paths := written(t, run(t, 3))
	if r := CheckFiles(paths[:2])[0]; r.Good() || !strings.Contains(r.Violations[0].Message, "rank 2 of 3") {
		t.Errorf("a set without rank 2: %v", r.Violations)
	}
	edit(t, paths[1], func(d map[string]any) { d["run_id"] = "ff" })
	bad := 0
	for _, r := range CheckFiles(paths) {
		if !r.Good() {
			bad++
		}
	}
	if bad == 0 {
		t.Error("a rank of another run is accepted")
	}
}

func TestWriteRefusesNonFinite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	if err := WriteFile(path, map[string]any{"ok": 1}); err != nil {
		t.Fatal(err)
	}
	zero := Float(0)
	if err := WriteFile(path, map[string]any{"bad": 1 / zero}); err == nil {
		t.Error("infinity was written")
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "ok") {
		t.Errorf("the earlier file is gone: %s (%v)", text, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct{ base, rank1, merged, sidecar string }{
		{"/r/benchmark.json", "/r/benchmark_dp1.json", "/r/benchmark_merged.json", "/r/benchmark_merged_worker_probe.json"},
		{"a.b.json", "a.b_dp1.json", "a.b_merged.json", "a.b_merged_worker_probe.json"},
		{".hidden", ".hidden_dp1", ".hidden_merged", ".hidden_merged_worker_probe"},
		{"dir.d/plain", "dir.d/plain_dp1", "dir.d/plain_merged", "dir.d/plain_merged_worker_probe"},
	} {
		merged := MergedPath(c.base)
		if RankPath(c.base, 0) != c.base || RankPath(c.base, 1) != c.rank1 || merged != c.merged || SidecarPath(merged) != c.sidecar {
			t.Errorf("%s: got %s, %s, %s", c.base, RankPath(c.base, 1), merged, SidecarPath(merged))
		}
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"artifact_type":"rank","results":[{}],"iteration_groups":[{}]}`))
	f.Add([]byte(`{"artifact_type":"merged","dp":{"global_size":2}}`))
	f.Add([]byte(`{"schema":"dynamo.fpm.benchmark_worker_probe"}`))
	f.Add([]byte(`{"schema":"fpmrun.repeat","schema_version":1,"launches":[{"run_id":"a"}],"points":[{"wall_times":[null,1e308,1e308],"mean":1.0,"cv":null}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseDocument("fuzz.json", text)
		if err != nil {
			return
		}
		for _, found := range [][]Violation{d.checkRank(), d.checkMerged(), d.checkSidecar()} {
			if len(found) == 0 && len(text) < 200 {
				t.Fatalf("accepted: %s", text)
			}
		}
		_ = d.checkRepeat() // a short one may be good
		if _, err := Merge([]*Document{d}, "out.json"); err == nil && len(text) < 200 {
			t.Fatalf("merged: %s", text)
		}
	})
}
