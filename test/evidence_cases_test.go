package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/rank/tokenizer/tokenizertest"
)

// goodRun measures a few points on two ranks and returns the rank files.
func goodRun(t *testing.T, dir string, flags ...string) []string {
	t.Helper()
	succeed(t, dir, "fpmrun", append([]string{"-np", "2", "fpmbench", "--points-file", pointsFile(t, false), "--output-path", "benchmark.json"}, flags...)...)
	files, _ := rankFiles(dir, 2)
	return files
}

// A coordinate three times in one run: announced at load time, measured three times from nothing, and refused by check as known readers do.
func TestEvidenceCase01RepeatedCoordinate(t *testing.T) {
	dir := t.TempDir()
	one := `{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0}`
	if err := os.WriteFile(filepath.Join(dir, "points.json"), []byte(`{"schema_version":1,"prefill":[`+one+","+one+","+one+`],"decode":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := succeed(t, dir, "fpmbench", "--mode", "prefill", "--points-file", "points.json", "--prefill-real-seed", "on", "--output-path", "benchmark.json")
	if !strings.Contains(r.stderr, "prefill[1], prefill[2] measure the same coordinate as prefill[0]") {
		t.Errorf("no warning of repeated coordinates\n%s", r.stderr)
	}
	doc := read(t, filepath.Join(dir, "benchmark.json"))
	first := doc.Results[0].FPMs[0].Measurement
	for _, row := range doc.Results {
		m := row.FPMs[0].Measurement
		if m.PointKey != first.PointKey || *m.Prompts.SHA256 != *first.Prompts.SHA256 || row.FPMs[0].Scheduled.SumPrefillKVTokens != 0 {
			t.Errorf("point %d differs from the first, or read KV: %+v", row.Point.BenchmarkID, row.FPMs[0].Scheduled)
		}
	}
	if r := execute(t, dir, "fpmstat", "check", "benchmark.json"); len(doc.Results) != 3 || r.status != 1 || strings.Count(r.stdout, "known readers refuse") != 2 {
		t.Errorf("%d results, check status %d\n%s", len(doc.Results), r.status, r.stdout)
	}
}

// A mixture of experts with random weights says that they are random.
func TestEvidenceCase09RandomWeights(t *testing.T) {
	dir := t.TempDir()
	succeed(t, dir, "fpmrun", "-np", "4", "fpmbench", "--model", "tiny-moe", "--expert-parallel", "--points-file", pointsFile(t, false), "--output-path", "benchmark.json")
	files, all := rankFiles(dir, 4)
	check(t, all...)
	if e := read(t, files[0]).Engine; e.Model.WeightSource != "random" || *e.Model.WeightSeed != 0 || !e.Parallel.EnableExpertParallel {
		t.Errorf("model %+v", e.Model)
	}
}

// A rank file that is cut, empty or absent: not there yet for the gate, and no merge.
func TestEvidenceCase12IncompleteFiles(t *testing.T) {
	dir := t.TempDir()
	files := goodRun(t, dir)
	whole, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"cut in half": whole[:len(whole)/2], "empty": {}, "absent": nil} {
		if err := os.Remove(files[1]); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if text != nil {
			if err := os.WriteFile(files[1], text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if r := execute(t, dir, "fpmstat", "check", "--gate", files[0], files[1]); r.status != 10 {
			t.Errorf("%s: gate status %d\n%s", name, r.status, r.stdout)
		}
		r := execute(t, dir, "fpmstat", "merge", "-o", "merged.json", files[0], files[1])
		if r.status != 1 || !strings.Contains(r.stderr, files[1]) {
			t.Errorf("%s: merge status %d\n%s", name, r.status, r.stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, "merged.json")); err == nil {
			t.Errorf("%s: something was merged", name)
		}
	}
}

// The same rank twice is refused and nothing is written; one rank of two is a partial merge that says so; ranks merge in their order, however they are listed.
func TestEvidenceCase13WhichRanks(t *testing.T) {
	dir := t.TempDir()
	files := goodRun(t, dir)
	text, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	renamed := filepath.Join(dir, "other.json")
	doc := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	doc["dp"] = json.RawMessage(`{"rank":0,"size":2}`)
	if text, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(renamed, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][]string{{files[0], files[0]}, {files[0], renamed}} {
		r := execute(t, dir, "fpmstat", "merge", "-o", "merged.json", pair[0], pair[1])
		if _, err := os.Stat(filepath.Join(dir, "merged.json")); r.status != 1 || !strings.Contains(r.stderr, "duplicate rank 0") || err == nil {
			t.Errorf("%v: status %d\n%s", pair, r.status, r.stderr)
		}
	}
	succeed(t, dir, "fpmstat", "merge", "-o", "part.json", files[0])
	var part struct {
		DP struct {
			Source  []int `json:"source_ranks"`
			Managed int   `json:"managed_size"`
			Global  int   `json:"global_size"`
		} `json:"dp"`
		Ledgers map[string]artifact.Ledger `json:"rank_warmup_evidence"`
	}
	if text, err = os.ReadFile(filepath.Join(dir, "part.json")); err != nil || json.Unmarshal(text, &part) != nil {
		t.Fatal(err)
	}
	if len(part.DP.Source) != 1 || part.DP.Managed != 1 || part.DP.Global != 2 || part.Ledgers["1"].Reason != "rank_artifact_not_loaded" {
		t.Errorf("a merge of rank 0 alone: %+v", part)
	}
	if r := execute(t, dir, "fpmstat", "check", "part.json"); r.status != 1 || !strings.Contains(r.stdout, "rank 1 missing") {
		t.Errorf("check of it: status %d\n%s", r.status, r.stdout)
	}
	succeed(t, dir, "fpmstat", "merge", "-o", "both.json", files[1], files[0])
	check(t, filepath.Join(dir, "both.json"))
}

// Files of an earlier run are never mixed with a new one's, and a run that fails leaves no earlier merged file or sidecar beside it.
func TestEvidenceCase14EarlierRun(t *testing.T) {
	dir := t.TempDir()
	files := goodRun(t, dir)
	_, all := rankFiles(dir, 2)
	old := filepath.Join(t.TempDir(), "benchmark_dp1.json")
	text, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, text, 0o600); err != nil {
		t.Fatal(err)
	}
	before := read(t, files[0]).RunID
	if r := execute(t, dir, "fpmrun", "-np", "2", "fpmbench", "--output-path", "benchmark.json"); r.status != 1 || !strings.Contains(r.stderr, "refusing to overwrite") {
		t.Errorf("over an earlier run: status %d\n%s", r.status, r.stderr)
	}
	goodRun(t, dir, "--overwrite")
	check(t, all...)
	after := read(t, files[0]).RunID
	r := execute(t, dir, "fpmstat", "merge", "-o", "merged.json", files[0], old)
	if r.status != 1 || !strings.Contains(r.stderr, before) || !strings.Contains(r.stderr, after) || strings.Count(r.stderr, "started") != 2 || before == after {
		t.Errorf("ranks of two runs: status %d\n%s", r.status, r.stderr)
	}
	// A run whose text is too short for a prompt fails at its first point.
	tokenizer, _, _ := textFiles(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "short.json"), tokenizertest.Conversations(8, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "long.json"), []byte(`{"schema_version":1,"prefill":[{"batch_size":1,"total_prefill_tokens":8000,"total_kv_read_tokens":0}],"decode":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r = execute(t, dir, "fpmrun", "-np", "2", "fpmbench", "--engine", "sim", "--model", "llama-3.1-8b", "--mode", "prefill", "--points-file", "long.json", "--prefill-content", "sharegpt_chain",
		"--tokenizer", tokenizer, "--dataset", "short.json", "--output-path", "benchmark.json", "--overwrite")
	if r.status != 1 || !strings.Contains(r.stderr, "a chain of 8000 token ids") {
		t.Errorf("a run that fails: status %d\n%s", r.status, r.stderr)
	}
	for _, path := range all[2:] {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s of the earlier run is still there", path)
		}
	}
	if doc := read(t, files[0]); doc.Status != "failed" || doc.RunID == after {
		t.Errorf("rank 0's document is %s of run %s", doc.Status, doc.RunID)
	}
}

// Wherever the host's clock is set, stamps are UTC and in order, and run folders are apart.
func TestEvidenceCase17TimeZone(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TZ", "Asia/Kathmandu")
	for range 2 {
		succeed(t, dir, "fpmbench", "--points-file", pointsFile(t, false))
	}
	runs, err := filepath.Glob(filepath.Join(dir, "fpm-results", "*", "benchmark.json"))
	if err != nil || len(runs) != 2 {
		t.Fatalf("runs %v (%v)", runs, err)
	}
	for _, path := range runs {
		timing := read(t, path).Timing
		if !strings.HasSuffix(*timing.StartedAt, "Z") || !strings.HasSuffix(*timing.CompletedAt, "Z") || *timing.CompletedAt < *timing.StartedAt {
			t.Errorf("%s: started at %s, completed at %s", path, *timing.StartedAt, *timing.CompletedAt)
		}
	}
}

// A sweep in which a cell fails marks the cell, measures the others, and fails as a whole; a check of nothing is no success.
func TestEvidenceCase19Sweep(t *testing.T) {
	dir := t.TempDir()
	script, err := filepath.Abs("../examples/sweep.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", script, "out", "2", "tiny", "no-such-model")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "FPM_POINTS_FILE="+pointsFile(t, false))
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("status %d, want 1\n%s", cmd.ProcessState.ExitCode(), out)
	}
	for cell, bad := range map[string]bool{"tiny-prefill": false, "tiny-decode": false, "no-such-model-prefill": true, "no-such-model-decode": true} {
		_, err := os.Stat(filepath.Join(dir, "out", cell, "failed"))
		if (err == nil) != bad {
			t.Errorf("%s: marked as failed %v\n%s", cell, err == nil, out)
		}
	}
	for _, args := range [][]string{{"check"}, {"check", filepath.Join(dir, "none", "*.json")}} {
		if r := execute(t, dir, "fpmstat", args...); r.status == 0 {
			t.Errorf("%v: status 0", args)
		}
	}
}

// The same as fpmrun sweep: cells whose flags are wrong stop it before the first one, and one that fails in the middle is marked while the others go on.
func TestEvidenceCase19SweepFile(t *testing.T) {
	dir := t.TempDir()
	write := func(model, more string) string {
		path := filepath.Join(dir, "sweep.yaml")
		text := fmt.Sprintf("output: out\nfpmbench: {points-file: %s}\nmatrix: {model: [%s], mode: [prefill, decode]}\n%s", pointsFile(t, false), model, more)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if r := execute(t, dir, "fpmrun", "sweep", write("tiny, no-such-model", "")); r.status != 2 || !strings.Contains(r.stderr, "no-such-model_prefill: ") || strings.Contains(r.stderr, "[1/") {
		t.Errorf("status %d, want 2 before the first run\n%s", r.status, r.stderr)
	}
	// A file in the place of a run's folder.
	if err := os.WriteFile(filepath.Join(dir, "out", "tiny_prefill"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, dir, "fpmrun", "sweep", write("tiny", "")); r.status != 1 || !strings.Contains(r.stderr, "tiny_prefill") {
		t.Errorf("status %d, want 1\n%s", r.status, r.stderr)
	}
	if err := os.Remove(filepath.Join(dir, "out", "tiny_prefill")); err != nil {
		t.Fatal(err)
	}
	r := execute(t, dir, "fpmrun", "sweep", write("tiny", "fpmrun: {np: 2, timeout: 1ms}\n"))
	if r.status != 1 || strings.Count(r.stdout, "failed") != 2 || strings.Count(r.stdout, "status 124: ") != 2 {
		t.Errorf("status %d, want 1 and two failed runs\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// Two launches of one command differ in times and in what is the project's own, and in nothing else; the merge keeps that by rank.
func TestRunsDifferInTimesOnly(t *testing.T) {
	dir := t.TempDir()
	var docs [2][]map[string]any
	for i, folder := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, path := range append(goodRun(t, filepath.Join(dir, folder)), filepath.Join(dir, folder, "benchmark_merged.json")) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var doc map[string]any
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Fatal(err)
			}
			docs[i] = append(docs[i], doc)
		}
	}
	merged := docs[0][2]["fpmrun"].(map[string]any)
	for rank, name := range []string{"0", "1"} {
		own, _ := json.Marshal(docs[0][rank]["fpmrun"])
		if kept, _ := json.Marshal(merged[name]); string(kept) != string(own) || len(own) < 10 {
			t.Errorf("rank %d's own evidence is %s, merged %s", rank, own, kept)
		}
	}
	for rank := range 2 {
		a, _ := json.Marshal(timeless(docs[0][rank]))
		b, _ := json.Marshal(timeless(docs[1][rank]))
		if string(a) != string(b) {
			t.Errorf("rank %d: two launches differ:\n%s\n%s", rank, a, b)
		}
		for _, key := range []string{"engine", "config", "measurement_protocol"} {
			text, _ := json.Marshal(docs[0][rank][key])
			for _, part := range []string{dir, "pid", "hostname"} {
				if strings.Contains(string(text), part) {
					t.Errorf("rank %d: %s contains %q: %s", rank, key, part, text)
				}
			}
		}
	}
}

// timeless takes away what two launches may differ in.
func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, child := range v {
			switch key {
			case "run_id", "fpmrun", "timing", "wall_time":
			default:
				kept[key] = timeless(child)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i, child := range v {
			kept[i] = timeless(child)
		}
		return kept
	}
	return v
}
