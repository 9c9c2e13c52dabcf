package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

func TestPrepareOutput(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "deep", "benchmark.json")
	first, err := PrepareOutput(base, "", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PrepareOutput(base, "", 0, true); err == nil || !strings.Contains(err.Error(), "another run is writing") {
		t.Errorf("a second run into the same folder: %v", err)
	}
	second, err := PrepareOutput(base, "", 1, false)
	if err != nil {
		t.Errorf("another rank of the same run: %v", err)
	}
	if err := artifact.WriteFile(base, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*Output{first, second} {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "deep", "*.tmp")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := PrepareOutput(base, "", 0, false); err == nil || !strings.Contains(err.Error(), "refusing to overwrite") {
		t.Errorf("over an existing file: %v", err)
	}
	merged := artifact.MergedPath(base)
	if err := os.Symlink("/nowhere", merged); err != nil { // dangling links count as files
		t.Fatal(err)
	}
	if err := os.Remove(base); err != nil {
		t.Fatal(err)
	}
	if _, err := PrepareOutput(base, "", 0, false); err == nil || !strings.Contains(err.Error(), merged) {
		t.Errorf("over a dangling link: %v", err)
	}
	third, err := PrepareOutput(base, filepath.Join(dir, "probe.json"), 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(merged); err == nil {
		t.Error("the earlier run's merged file is still there")
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := PrepareOutput(filepath.Join(dir, "file", "benchmark.json"), "", 0, false); err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("below a file: %v", err)
	}
	if _, err := PrepareOutput(dir, "", 0, true); err == nil || !strings.Contains(err.Error(), "is a folder; want the name of a file") {
		t.Errorf("a folder: %v", err)
	}
}

// A run whose journal is gone is not said to be in its own way.
func TestResumeOutputWithoutJournal(t *testing.T) {
	base := filepath.Join(t.TempDir(), "benchmark.json")
	own := artifact.RankPath(base, 1)
	if err := os.WriteFile(own, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := ResumeOutput(base, "", 1)
	if err == nil || !strings.Contains(err.Error(), artifact.JournalPath(base, 1)) || !strings.Contains(err.Error(), "put the journal back") || strings.Contains(err.Error(), "--resume") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	output, err := ResumeOutput(base, "", 1) // one that was killed before it had anything
	if err != nil {
		t.Fatal(err)
	}
	if err := output.Close(); err != nil {
		t.Error(err)
	}
}
