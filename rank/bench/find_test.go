package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

func TestFindRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[1]*") // brackets and stars are names
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	runAll(t, 2, into(dir, nil))
	base := filepath.Join(dir, "benchmark.json")
	find := func(path, want, message string) {
		t.Helper()
		got, err := FindRun(path)
		if message == "" && (err != nil || got != want) || message != "" && (err == nil || !strings.Contains(err.Error(), message)) {
			t.Errorf("%s: got %q (%v), want %q, error %q", path, got, err, want, message)
		}
	}
	find(dir, base, "")
	find(artifact.JournalPath(base, 0), base, "")
	find(artifact.JournalPath(base, 1), "", "not that of DP rank 0")
	find(t.TempDir(), "", "no journal of DP rank 0 is there")
	find(filepath.Join(dir, "nowhere"), "", "no such file")
	for _, name := range []string{"torn.journal", "torn_dp1.journal"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("FPM"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	find(filepath.Join(dir, "torn.journal"), filepath.Join(dir, "torn.json"), "")
	find(filepath.Join(dir, "torn_dp1.journal"), "", "not that of DP rank 0")
	find(dir, "", "2 runs in this folder")
	if err := os.WriteFile(filepath.Join(dir, "other.journal"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	find(dir, "", "no journal's begin")
}

func TestRemoveMerged(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "benchmark.json")
	for _, path := range finalFiles(base, "", 0) {
		if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := RemoveMerged(base, ""); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 || left[0] != base {
		t.Errorf("left %v (%v), want the rank's document only", left, err)
	}
}
