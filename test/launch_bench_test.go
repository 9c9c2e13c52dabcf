package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// `fpmrun bench` runs fpmcoll from beside fpmrun, with fpmrun's flags before its own.
func TestLaunchBench(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "github.com/fpmrun/fpmrun/cmd/fpmrun", "github.com/fpmrun/fpmrun/cmd/fpm-keeper", "github.com/fpmrun/fpmrun/cmd/fpmcoll")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	bench := exec.Command(filepath.Join(dir, "fpmrun"), "bench", "-np", "2", "--", "--tabs", "--limit", "1ms", "barrier:0")
	bench.Dir = dir
	out, err := bench.Output()
	if err != nil || !strings.HasPrefix(string(out), "barrier\t0\t2\t") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v, stdout %q: want the row of a barrier between 2 ranks", err, out)
	}
	bench = exec.Command(filepath.Join(dir, "fpmrun"), "--", "bench")
	bench.Dir = dir
	if err := bench.Run(); bench.ProcessState.ExitCode() != 127 {
		t.Errorf("fpmrun -- bench: %v, want status 127: bench is a program here", err)
	}
}
