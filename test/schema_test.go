package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fpmrun/fpmrun/artifact"
)

// compiled is a published schema.
func compiled(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("../docs/schema/" + kind + ".schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instance(t *testing.T, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What a repeated run of two ranks writes is valid by the published schemas, of every kind of document; what is broken is not.
func TestSchemasDescribeARun(t *testing.T) {
	dir := t.TempDir()
	succeed(t, dir, "fpmrun", "-np", "2", "fpmbench", "--model", "tiny-moe", "--dp", "2", "--expert-parallel", "--repeat", "2", "--points-file", points(t), "--output-path", "out/benchmark.json")
	launch := filepath.Join(dir, "out", "launch-1")
	texts := map[string]string{}
	for kind, path := range map[string]string{"rank": filepath.Join(launch, "benchmark_dp1.json"), "merged": filepath.Join(launch, "benchmark_merged.json"),
		"sidecar": filepath.Join(launch, "benchmark_merged_worker_probe.json"), "repeat": filepath.Join(dir, "out", "repeat.json")} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[kind] = string(text)
		if err := compiled(t, kind).Validate(instance(t, texts[kind])); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	journal, err := artifact.ReadJournal(artifact.JournalPath(filepath.Join(launch, "benchmark.json"), 1))
	if err != nil || len(journal.Processes) != 1 || len(journal.Points) == 0 {
		t.Fatalf("%+v (%v)", journal, err)
	}
	for name, record := range map[string]any{"process": journal.Processes[0], "point": journal.Points[0]} {
		text, err := json.Marshal(map[string]any{name: record})
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
		if err := compiled(t, "journal-record").Validate(instance(t, texts[name])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct{ kind, schema, old, new, want string }{
		{"rank", "rank", `"batch_size": 8`, `"batch_size": true`, "batch_size"},
		{"rank", "rank", `"dp_rank": 1`, `"dp_rank": -1`, "dp_rank"},
		{"rank", "rank", `"skipped_points": []`, `"skipped_points": null`, "skipped_points"},
		{"rank", "rank", `"point_key": "`, `"point_key": "X`, "point_key"},
		{"rank", "rank", `"basis": "inter_output"`, `"basis": "other"`, "basis"},
		{"rank", "merged", "", "", "artifact_type"},
		{"merged", "rank", "", "", "warmup_evidence"},
		{"merged", "merged", `"rank_files"`, `"files"`, "rank_files"},
		{"sidecar", "sidecar", `"schema_version": 1`, `"schema_version": 2`, "schema_version"},
		{"repeat", "repeat", `"wall_times"`, `"times"`, "wall_times"},
		{"process", "journal-record", `"format":1`, `"format":2`, "format"},
		{"point", "journal-record", `"point":`, `"process":`, "process"},
	} {
		text := strings.ReplaceAll(texts[c.kind], c.old, c.new)
		if c.old != "" && text == texts[c.kind] {
			t.Errorf("%s has no %s", c.kind, c.old)
		}
		if err := compiled(t, c.schema).Validate(instance(t, text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s as %s: %v, want it named", c.kind, c.new, c.schema, err)
		}
	}
}
