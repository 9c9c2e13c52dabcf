package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

// prompts maps each coordinate of a rank document to the hashes of its prompts.
func prompts(t *testing.T, path string) map[string]artifact.Prompts {
	t.Helper()
	byKey := map[string]artifact.Prompts{}
	for _, row := range read(t, path).Results {
		m := row.FPMs[0].Measurement
		if m.Prompts.SHA256 == nil {
			t.Fatalf("%s: point %d has no prompt hash", path, row.Point.BenchmarkID)
		}
		byKey[m.PointKey] = m.Prompts
	}
	return byKey
}

// What a point is fed with depends on the seed, the coordinate, the rank and the slot: not on the grid around it, its
// order or the run.
func TestPromptsDependOnTheCoordinateOnly(t *testing.T) {
	dir := t.TempDir()
	grid := func(folder string, flags ...string) []string {
		args := append([]string{"-np", "2", "fpmbench", "--output-path", filepath.Join(folder, "benchmark.json"),
			"--max-num-seqs", "4", "--max-num-batched-tokens", "32", "--max-model-len", "128"}, flags...)
		succeed(t, dir, "fpmrun", args...)
		files, _ := rankFiles(filepath.Join(dir, folder), 2)
		return files
	}
	first := grid("first")
	again := grid("again")
	subset := grid("subset", "--prefill-max-new-token-samples", "2", "--decode-max-batch-size-samples", "2", "--mode", "agg")
	prefill := grid("prefill", "--mode", "prefill")
	forward := grid("forward", "--points-file", pointsFile(t, false))
	backward := grid("backward", "--points-file", pointsFile(t, true))
	seed := grid("seed", "--content-seed", "1")

	base := [2]map[string]artifact.Prompts{prompts(t, first[0]), prompts(t, first[1])}
	for name, files := range map[string][]string{"again": again, "subset": subset, "prefill": prefill, "forward": forward, "backward": backward} {
		for rank, path := range files {
			shared := 0
			for key, got := range prompts(t, path) {
				if want, ok := base[rank][key]; ok {
					shared++
					if *got.SHA256 != *want.SHA256 {
						t.Errorf("%s, rank %d: other prompts at point %s", name, rank, key)
					}
				}
			}
			if shared == 0 {
				t.Errorf("%s, rank %d: no point in common", name, rank)
			}
		}
	}
	for rank := range 2 {
		a, b := prompts(t, forward[rank]), prompts(t, backward[rank])
		for key, p := range a {
			if q, ok := b[key]; !ok || *p.SHA256 != *q.SHA256 {
				t.Errorf("rank %d: the reversed grid has other prompts at point %s", rank, key)
			}
		}
	}
	if len(prompts(t, again[0])) != len(base[0]) {
		t.Error("a second run has other points")
	}
	for key, p := range prompts(t, seed[0]) {
		if *p.SHA256 == *base[0][key].SHA256 {
			t.Errorf("another seed has the same prompts at point %s", key)
		}
	}
	for key, p := range base[0] {
		if *p.SHA256 == *base[1][key].SHA256 {
			t.Errorf("both ranks have the same prompts at point %s", key)
		}
		seen := map[string]bool{}
		for _, slot := range p.Requests {
			if seen[slot.SHA256] && slot.NumTokens > 1 {
				t.Errorf("two slots have the same prompt at point %s", key)
			}
			seen[slot.SHA256] = true
		}
	}
	if a, b := read(t, first[0]), read(t, again[0]); a.RunID == b.RunID || *a.GridDigest != *b.GridDigest {
		t.Errorf("runs %s and %s, grids %s and %s: want fresh runs of one grid", a.RunID, b.RunID, *a.GridDigest, *b.GridDigest)
	}
}

// pointsFile writes some points of the generated grid, in one order or the other.
func pointsFile(t *testing.T, reversed bool) string {
	t.Helper()
	prefill := []string{`{"batch_size":1,"total_prefill_tokens":32,"total_kv_read_tokens":0}`, `{"batch_size":2,"total_prefill_tokens":16,"total_kv_read_tokens":32}`,
		`{"batch_size":4,"total_prefill_tokens":32,"total_kv_read_tokens":64}`}
	decode := []string{`{"batch_size":1,"total_kv_read_tokens":16}`, `{"batch_size":4,"total_kv_read_tokens":64}`}
	if reversed {
		slices.Reverse(prefill)
		slices.Reverse(decode)
	}
	path := filepath.Join(t.TempDir(), "points.json")
	text := fmt.Sprintf(`{"schema_version":1,"prefill":[%s],"decode":[%s]}`, strings.Join(prefill, ","), strings.Join(decode, ","))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
