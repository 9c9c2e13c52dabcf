package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Each example runs under the launcher, as real processes over TCP.
func TestExamples(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+string(os.PathSeparator), "github.com/fpmrun/fpmrun/examples/...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, ranks := range []int{1, 2, 3, 5, 8} {
		np := strconv.Itoa(ranks)
		for name, want := range map[string]struct {
			text  string
			lines int
		}{
			"hello":     {"of " + np, ranks},
			"allreduce": {"pi is about 3.141592654, by " + np + " ranks", 1},
			"ring":      {"of " + np + ": " + strconv.Itoa(ranks*(ranks-1)/2), 1},
			"rpc":       {"rank " + strconv.Itoa(ranks-1), ranks},
		} {
			r := succeed(t, dir, "fpmrun", "-np", np, filepath.Join(dir, name))
			if !strings.Contains(r.stdout, want.text) || strings.Count(r.stdout, "\n") != want.lines {
				t.Errorf("%s on %d ranks:\n%s", name, ranks, r.stdout)
			}
		}
	}
}
