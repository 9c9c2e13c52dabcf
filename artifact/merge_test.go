package artifact

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMergeWorlds(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 5, 8, 12} {
		paths := written(t, run(t, ranks))
		for _, r := range CheckFiles(paths) {
			if !r.Good() {
				t.Fatalf("%d ranks: %s: %v", ranks, r.Path, r.Violations)
			}
		}
		slices.Sort(paths) // as a shell lists them: dp1, dp10, dp11, dp2, ...
		merged, err := mergeFiles(t, paths)
		if err != nil {
			t.Fatalf("%d ranks: %v", ranks, err)
		}
		doc := asTree(t, merged)
		results := doc["results"].([]any)
		if len(results) != 3*ranks {
			t.Fatalf("%d ranks: %d rows, want %d", ranks, len(results), 3*ranks)
		}
		for i, row := range results {
			point := at(row, "point")
			if got, want := sprint(point["dp_rank"])+sprint(point["benchmark_id"]), sprint(i%ranks)+sprint(i/ranks+1); got != want {
				t.Errorf("%d ranks: row %d is rank and id %s, want %s", ranks, i, got, want)
			}
		}
		if got := sprint(at(doc, "coverage")["expected_points"]); got != sprint(3*ranks) {
			t.Errorf("%d ranks: expected_points %s, want %d", ranks, got, 3*ranks)
		}
		if got := sprint(at(doc, "dp")["source_ranks"]); strings.Count(got, " ") != ranks-1 || !strings.HasPrefix(got, "[0") {
			t.Errorf("%d ranks: source_ranks %s", ranks, got)
		}
		if at(doc, "engine", "parallel")["data_parallel_rank"] != nil {
			t.Errorf("%d ranks: the merged engine block names a rank", ranks)
		}
		out := paths[0] + "_merged.json"
		if err := WriteFile(out, merged); err != nil {
			t.Fatal(err)
		}
		if r := CheckFiles([]string{out})[0]; !r.Good() || r.Kind != "merged" {
			t.Errorf("%d ranks: merged document: %v", ranks, r.Violations)
		}
	}
}

// The worked example of the format: ranks of 10 and 20 ms give a group of 20 ms, rows of their own, and a total that
// adds the groups.
func TestMergeWallTimes(t *testing.T) {
	merged, err := mergeFiles(t, written(t, run(t, 2)))
	if err != nil {
		t.Fatal(err)
	}
	doc := asTree(t, merged)
	wall := func(i int) float64 {
		f, _ := at(doc, "results", i, "fpms", 0)["wall_time"].(json.Number).Float64()
		return f
	}
	if !closeTo(wall(0), 0.010, 1e-9, 0) || !closeTo(wall(1), 0.020, 1e-9, 0) {
		t.Errorf("rows are %v and %v, want 0.010 and 0.020", wall(0), wall(1))
	}
	if got := at(doc, "iteration_groups", 0)["wall_time"]; got != at(doc, "results", 1, "fpms", 0)["wall_time"] {
		t.Errorf("the group's time is %v, want the slowest rank's", got)
	}
	total, _ := at(doc, "timing")["measured_iteration_seconds"].(json.Number).Float64()
	if !closeTo(total, 0.060, 1e-9, 0) {
		t.Errorf("measured seconds %v, want 0.060", total)
	}
}

func TestMergeRefuses(t *testing.T) {
	everywhere := func(change func(map[string]any)) func(*testing.T, []string) []string {
		return func(t *testing.T, paths []string) []string {
			for _, path := range paths {
				edit(t, path, change)
			}
			return paths
		}
	}
	second := func(change func(map[string]any)) func(*testing.T, []string) []string {
		return func(t *testing.T, paths []string) []string {
			edit(t, paths[1], change)
			return paths
		}
	}
	measurement := func(doc map[string]any, rank int) map[string]any {
		return at(doc, "iteration_groups", 1, "rank_results", rank, "fpms", 0, "benchmark_measurement")
	}
	raw := func(doc map[string]any) map[string]any { return at(measurement(doc, 0)["raw_fpms"].([]any)[1]) }
	for _, c := range []struct {
		name   string
		change func(*testing.T, []string) []string
		want   string
	}{
		{"same file twice", func(_ *testing.T, p []string) []string { return []string{p[0], p[0]} }, "duplicate rank 0"},
		{"second says it is rank 0", second(func(d map[string]any) { at(d, "dp")["rank"] = 0 }), "duplicate rank 0"},
		{"other run", second(func(d map[string]any) { d["run_id"] = "ff" }), "run_id differs"},
		{"other grid", second(func(d map[string]any) { d["grid_digest"] = "ff" }), "grid_digest differs"},
		{"no protocol on one", second(func(d map[string]any) { delete(d, "measurement_protocol") }), "measurement protocol mismatch"},
		{"other content seed", second(func(d map[string]any) { at(d, "measurement_protocol")["content_seed"] = "1" }), "measurement protocol mismatch"},
		{"other engine version", second(func(d map[string]any) { at(d, "engine", "versions")["fpmrun"] = "2" }), "engine provenance mismatch: versions (rank 0)"},
		{"failed", second(func(d map[string]any) { d["status"], d["error"] = "failed", "boom" }), "incomplete results"},
		{"skipped point", everywhere(func(d map[string]any) { d["skipped_points"] = []any{map[string]any{}} }), "skipped"},
		{"lost group", second(func(d map[string]any) { d["iteration_groups"] = d["iteration_groups"].([]any)[1:] }), "completed_points"},
		{"group time not the slowest", everywhere(func(d map[string]any) { at(d, "iteration_groups", 0)["wall_time"] = 0.03 }), "slowest"},
		{"local result differs", second(func(d map[string]any) { at(d, "results", 0, "fpms", 0)["worker_id"] = "x" }), "local result differs"},
		{"groups differ", second(func(d map[string]any) { at(d, "iteration_groups", 0)["point"] = map[string]any{} }), "differs from rank 0"},
		{"point key of another coordinate", everywhere(func(d map[string]any) { measurement(d, 1)["point_key"] = strings.Repeat("0", 64) }), "identity mismatch"},
		{"evidence missing", everywhere(func(d map[string]any) {
			delete(at(d, "iteration_groups", 0, "rank_results", 1, "fpms", 0), "benchmark_measurement")
		}), "evidence missing"},
		{"forward index falls", everywhere(func(d map[string]any) { at(raw(d), "benchmark_sample")["forward_index"] = 5 }), "must rise"},
		{"raw time is not its interval", everywhere(func(d map[string]any) { at(raw(d), "benchmark_sample", "timing")["end_monotonic"] = 99.0 }), "end - start"},
		{"median of a single step", everywhere(func(d map[string]any) { at(measurement(d, 0), "estimate")["method"] = UpperMedian }), "adjacent_upper_median"},
		{"ledger count does not add up", second(func(d map[string]any) { at(d, "warmup_evidence", "records", 0)["observed_forward_count"] = 4 }), "observed_forward_count"},
		{"ledger count is a bool", second(func(d map[string]any) { at(d, "warmup_evidence", "records", 0)["observed_forward_count"] = true }), "observed_forward_count"},
		{"preparation after the measurement", second(func(d map[string]any) {
			at(d, "warmup_evidence", "records", 0)["forward_index_end"], at(d, "warmup_evidence", "records", 0)["observed_forward_count"] = 50, 50
		}), "overlaps"},
		{"torn file", func(t *testing.T, p []string) []string {
			text, _ := os.ReadFile(p[1])
			if err := os.WriteFile(p[1], text[:len(text)/2], 0o644); err != nil {
				t.Fatal(err)
			}
			return p
		}, "ends at byte"},
	} {
		paths := c.change(t, written(t, run(t, 2)))
		if _, err := mergeFiles(t, paths); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestMergeOneOfTwo(t *testing.T) {
	paths := written(t, run(t, 2))
	merged, err := mergeFiles(t, paths[:1])
	if err != nil {
		t.Fatal(err)
	}
	doc := asTree(t, merged)
	dp := at(doc, "dp")
	if sprint(dp["source_ranks"], dp["managed_size"], dp["global_size"]) != "[0] 1 2" {
		t.Errorf("dp is %v", dp)
	}
	if got := at(doc, "rank_warmup_evidence", "1")["reason"]; got != "rank_artifact_not_loaded" {
		t.Errorf("rank 1's ledger says %v", got)
	}
	out := paths[0] + "_merged.json"
	if err := WriteFile(out, merged); err != nil {
		t.Fatal(err)
	}
	if r := CheckFiles([]string{out})[0]; r.Good() || !strings.Contains(r.Violations[0].Message, "rank 1 missing") {
		t.Errorf("check: %v", r.Violations)
	}
}

func TestMergeDegradedEngine(t *testing.T) {
	paths := written(t, run(t, 3))
	edit(t, paths[0], func(d map[string]any) { d["engine"] = map[string]any{"capture_error": "no config"} })
	edit(t, paths[2], func(d map[string]any) { delete(d, "engine") })
	merged, err := mergeFiles(t, paths)
	if err != nil {
		t.Fatal(err)
	}
	engine := at(asTree(t, merged), "engine")
	if got := sprint(engine["capture_errors"]); got != "map[0:no config 2:missing engine block]" {
		t.Errorf("capture_errors %s", got)
	}
	if at(engine, "versions")["engine"] != "cpu" || len(merged.Warnings) != 1 {
		t.Errorf("want the clean rank's block and one warning, got %v and %v", engine, merged.Warnings)
	}
}

// A number beyond 2^53 survives reading, merging and writing digit for digit.
func TestMergeKeepsDigits(t *testing.T) {
	const large, huge = "9007199254740993", "-123456789012345678901234567890123456789012345678901234567890"
	own := map[string]any{"processes": []any{}, "points": []any{}, "engine_host": map[string]any{"ticks": json.Number(huge)}}
	paths := written(t, run(t, 2))
	for _, path := range paths {
		edit(t, path, func(d map[string]any) {
			at(d, "limits")["num_gpu_blocks"] = json.Number(large)
			at(d, "engine")["later"] = json.Number(huge)
			at(d, "warmup_evidence", "records", 0)["requested_shape"] = json.Number(huge)
			d["later"], d["fpmrun"] = []any{json.Number(huge), json.Number("1e+2"), json.Number("-0.10")}, own
		})
	}
	merged, err := mergeFiles(t, paths)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "merged.json")
	if err := WriteFile(path, merged); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := asTree(t, json.RawMessage(text))
	got := sprint(at(doc, "limits")["num_gpu_blocks"], at(doc, "engine")["later"], doc["later"], at(doc, "fpmrun", "0", "engine_host")["ticks"],
		at(doc, "fpmrun", "1", "engine_host")["ticks"], at(doc, "rank_warmup_evidence", "1", "records", 0)["requested_shape"])
	if want := sprint(large, huge, "["+huge+" 1e+2 -0.10]", huge, huge, huge); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
