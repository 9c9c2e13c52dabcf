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
}
