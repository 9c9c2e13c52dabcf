package artifact

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Repeated decode of 30, 10, 12, 11 and 13 ms: the retained number is exactly 12 ms, the admission step is never in it, and the raw samples stay.
func TestEvidenceCase07Median(t *testing.T) {
	walls := []Float{0.030, 0.010, 0.012, 0.011, 0.013}
	raw := make([]FPM, len(walls))
	for i, w := range walls {
		raw[i] = FPM{WallTime: w, Scheduled: Scheduled{SumDecodeKVTokens: 100 + i}, Sample: &Sample{SampleIndex: i}}
	}
	got, estimate := Reduce(raw, 5)
	if got.WallTime != 0.012 || estimate.Method != UpperMedian || !slices.Equal(estimate.Indices, []int{1, 2, 3, 4}) || got.Scheduled.SumDecodeKVTokens != 101 || got.Sample != nil {
		t.Errorf("retained %+v by %+v", got, estimate)
	}
	for i, w := range walls {
		if raw[i].WallTime != w || raw[i].Sample.SampleIndex != i {
			t.Errorf("raw sample %d was changed: %+v", i, raw[i])
		}
	}
}

// Numbers that are none: a bare NaN or Infinity is no JSON and named by its byte, a string is named by its path, and the writer writes none of them.
func TestEvidenceCase10NotANumber(t *testing.T) {
	paths := written(t, run(t, 1))
	whole, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	at0 := strings.Index(string(whole), `"wall_time": 0.`)
	end := at0 + strings.IndexAny(string(whole)[at0:], ",\n")
	for _, c := range []struct{ value, want string }{{"NaN", "wall_time: byte "}, {"Infinity", "wall_time: byte "}, {"-Infinity", "wall_time: byte "}, {`"NaN"`, "wall_time"}} {
		text := slices.Concat(whole[:at0], []byte(`"wall_time": `+c.value), whole[end:])
		if err := os.WriteFile(paths[0], text, 0o600); err != nil {
			t.Fatal(err)
		}
		r := CheckFiles(paths)[0]
		found := ""
		for _, v := range r.Violations {
			found += v.String() + "\n"
		}
		if r.Good() || r.NotReady || !strings.Contains(found, c.want) {
			t.Errorf("%s: not ready %v, %s, want %q", c.value, r.NotReady, found, c.want)
		}
	}
	zero := Float(0)
	for _, bad := range []Float{1 / zero, -1 / zero, zero / zero} {
		path := filepath.Join(t.TempDir(), "a.json")
		if err := WriteFile(path, FPM{WallTime: bad}); err == nil {
			t.Errorf("%v was written", bad)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%v left a file", bad)
		}
	}
}

// Whole numbers that are no integers are violations; an integer beyond 2^53 keeps its digits through reading, merging and writing.
func TestEvidenceCase11Integers(t *testing.T) {
	for _, c := range []struct {
		path   string
		change func(d map[string]any)
	}{
		{"$.iteration_groups[0].benchmark_id", func(d map[string]any) { at(d, "iteration_groups", 0)["benchmark_id"] = json.Number("1.0") }},
		{"$.iteration_groups[0].point.batch_size", func(d map[string]any) { at(d, "iteration_groups", 0, "point")["batch_size"] = true }},
		{"$.iteration_groups[0].rank_results[0].fpms[0].counter_id", func(d map[string]any) {
			at(d, "iteration_groups", 0, "rank_results", 0, "fpms", 0)["counter_id"] = "1"
		}},
		{"$.results[0].point.batch_size", func(d map[string]any) { at(d, "results", 0, "point")["batch_size"] = json.Number("2.0") }},
		{"$.results[1].fpms[0].counter_id", func(d map[string]any) { at(d, "results", 1, "fpms", 0)["counter_id"] = json.Number("2.0") }},
		{"$.iteration_groups[0].point.total_kv_read_tokens", func(d map[string]any) {
			at(d, "iteration_groups", 0, "point")["total_kv_read_tokens"] = json.Number("1e3")
		}},
	} {
		paths := written(t, run(t, 1))
		edit(t, paths[0], c.change)
		r := CheckFiles(paths)[0]
		if !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Path == c.path }) {
			t.Errorf("no violation at %s: %v", c.path, r.Violations)
		}
	}
	const large = 9007199254740993
	key, err := (&Point{PointType: Decode, BatchSize: 2, TotalKVReadTokens: large}).Key()
	if err != nil {
		t.Fatal(err)
	}
	paths := written(t, run(t, 2))
	for rank, path := range paths {
		edit(t, path, func(d map[string]any) {
			group := at(d, "iteration_groups", 2)
			at(group, "point")["total_kv_read_tokens"] = json.Number(sprint(large))
			for k := range 2 {
				at(group, "rank_results", k, "fpms", 0, "benchmark_measurement")["point_key"] = key
			}
			at(d, "results", 2)["point"], at(d, "results", 2)["fpms"] = group["point"], at(group, "rank_results", rank)["fpms"]
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
	if err != nil || strings.Count(string(text), `"total_kv_read_tokens": `+sprint(large)+",") != 3 { // the group and a row of each rank
		t.Errorf("the merged document lost digits (%v)", err)
	}
	whole, err := ParseDocument(path, text)
	if err != nil {
		t.Fatal(err)
	}
	overview, err := ReadOverview(path)
	if err != nil {
		t.Fatal(err)
	}
	if shown, _ := json.Marshal(overview.Points); err != nil || !strings.Contains(string(shown), `"kv_tokens":`+sprint(large)+",") {
		t.Errorf("shown as %s (%v)", shown, err)
	}
	samples := 0
	if err := whole.RawSamples(func(s *RawSample) error {
		if s.KVTokens == large {
			samples++
		}
		return nil
	}); err != nil || samples != 4 { // an admission and a steady one of each rank
		t.Errorf("%d raw samples with all digits (%v)", samples, err)
	}
	if _, err := ParseManifest([]byte(`{"schema_version":1,"prefill":[],"decode":[{"batch_size":4.0,"total_kv_read_tokens":8}]}`)); err == nil || !strings.Contains(err.Error(), "decode[0].batch_size") {
		t.Errorf("a points file with 4.0: %v", err)
	}
}

// A rank of an earlier version, of another content seed, of another engine version: each is refused in its own words.
func TestEvidenceCase15OtherVersions(t *testing.T) {
	for _, c := range []struct {
		change func(d map[string]any)
		want   string
	}{
		{func(d map[string]any) { delete(d, "measurement_protocol") }, "measurement protocol mismatch"},
		{func(d map[string]any) { at(d, "measurement_protocol")["content_seed"] = "1" }, "measurement protocol mismatch"},
		{func(d map[string]any) { at(d, "engine", "versions")["engine"] = "other" }, "engine provenance mismatch: versions (rank 0)"},
	} {
		paths := written(t, run(t, 2))
		edit(t, paths[1], c.change)
		if _, err := mergeFiles(t, paths); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// Two hosts whose wall clocks are an hour apart and whose monotonic clocks have other origins: nothing is compared between them.
func TestEvidenceCase16ClocksOfTwoHosts(t *testing.T) {
	docs := run(t, 2)
	started, completed := "2026-10-10T01:00:00Z", "2026-10-10T01:00:07Z"
	docs[1].Timing = RunTiming{StartedAt: &started, CompletedAt: &completed, Elapsed: 7}
	for _, d := range docs {
		for i := range d.Groups {
			for k := range d.Groups[i].RankResults[1].FPMs[0].Measurement.Raw {
				timing := &d.Groups[i].RankResults[1].FPMs[0].Measurement.Raw[k].Sample.Timing
				if d == docs[0] { // the groups of both documents share their records
					moved := *timing.Start - 1048576
					timing.Start, timing.End = &moved, timing.End-1048576
				}
			}
		}
	}
	for _, d := range docs {
		d.Finish(3, false, nil)
	}
	paths := written(t, docs)
	for _, r := range CheckFiles(paths) {
		if !r.Good() {
			t.Errorf("%s: %v", r.Path, r.Violations)
		}
	}
	merged, err := mergeFiles(t, paths)
	if err != nil {
		t.Fatal(err)
	}
	timing := at(asTree(t, merged), "timing")
	if got := sprint(timing["benchmark_elapsed_seconds"], timing["started_at"], timing["rank_benchmark_elapsed_seconds"]); got != "7.0 2026-10-10T01:00:00Z map[0:5.0 1:7.0]" {
		t.Errorf("merged timing %s, want the slowest rank's own", got)
	}
}

// A merged file that was cut short says where it ends, plain and compressed, also between two results.
func TestEvidenceCase18CutShort(t *testing.T) {
	merged, err := mergeFiles(t, written(t, run(t, 2)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "merged.json")
	if err := WriteFile(path, merged); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	results := strings.Index(string(whole), `"results"`)
	between := results + strings.Index(string(whole)[results:], "\n    },\n    {") + len("\n    },")
	packed := encoder.EncodeAll(whole, nil)
	for name, text := range map[string][]byte{"merged.json": whole[:len(whole)/2], "between.json": whole[:between], "last.json": whole[:len(whole)-2],
		"merged.json.zst": packed[:len(packed)/2], "last.json.zst": packed[:len(packed)-1]} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r := CheckFiles([]string{path})[0]
		if r.Good() || len(r.Violations) != 1 || !strings.Contains(r.Violations[0].Message, "ends at byte ") || !strings.Contains(r.Violations[0].Message, "inside") {
			t.Errorf("%s: %v", name, r.Violations)
		}
	}
	path = filepath.Join(dir, "whole.json.zst")
	if err := os.WriteFile(path, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := CheckFiles([]string{path})[0]; !r.Good() {
		t.Errorf("whole: %v", r.Violations)
	}
}
