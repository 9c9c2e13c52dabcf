package test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
)

// result is how a program ended.
type result struct {
	status         int
	stdout, stderr string
}

// command prepares one of the programs under test; it is killed when the test takes too long.
func command(t *testing.T, dir, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, program), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd
}

// execute runs a program to its end.
func execute(t *testing.T, dir, program string, args ...string) result {
	t.Helper()
	cmd := command(t, dir, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// succeed runs a program that must exit with 0.
func succeed(t *testing.T, dir, program string, args ...string) result {
	t.Helper()
	r := execute(t, dir, program, args...)
	if r.status != 0 {
		t.Fatalf("%s %v exited with %d\n%s%s", program, args, r.status, r.stdout, r.stderr)
	}
	return r
}

// read reads a rank document.
func read(t *testing.T, path string) artifact.Rank {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc artifact.Rank
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return doc
}

// check fails the test when fpmstat finds a fault in a file.
func check(t *testing.T, paths ...string) {
	t.Helper()
	for _, r := range artifact.CheckFiles(paths) {
		if !r.Good() {
			t.Fatalf("%s: %v", r.Path, r.Violations)
		}
	}
}

// rankFiles are the rank documents below a folder, and all documents of a run.
func rankFiles(dir string, ranks int) (files, all []string) {
	base := filepath.Join(dir, "benchmark.json")
	for rank := range ranks {
		files = append(files, artifact.RankPath(base, rank))
	}
	merged := artifact.MergedPath(base)
	return files, append(append([]string{}, files...), merged, artifact.SidecarPath(merged))
}

func points(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../artifact/testdata/points-mixed.json")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWorldSizes(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 5, 8} {
		t.Run(strconv.Itoa(ranks), func(t *testing.T) {
			dir := t.TempDir()
			succeed(t, dir, "fpmrun", "-np", strconv.Itoa(ranks), "fpmbench", "--points-file", points(t), "--output-path", "benchmark.json")
			files, all := rankFiles(dir, ranks)
			check(t, all...)
			for rank, path := range files {
				doc := read(t, path)
				if doc.DP.Rank != rank || doc.DP.Size != ranks || !doc.Valid || len(doc.Groups) != 9 {
					t.Errorf("rank %d: %+v, valid %v, %d groups", rank, doc.DP, doc.Valid, len(doc.Groups))
				}
			}
			checkProbe(t, all[len(all)-1], ranks, 1)
		})
	}
}

// A bare run on a generated grid, two ranks, as a new user starts it.
func TestBareRun(t *testing.T) {
	dir := t.TempDir()
	r := succeed(t, dir, "fpmrun", "-np", "2", "fpmbench", "--max-num-seqs", "4", "--max-num-batched-tokens", "32", "--max-model-len", "128")
	runs, err := filepath.Glob(filepath.Join(dir, "fpm-results", "*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("run folders %v (%v)\n%s", runs, err, r.stderr)
	}
	_, all := rankFiles(runs[0], 2)
	check(t, all...)
	if doc := read(t, all[0]); doc.RunID != filepath.Base(runs[0]) {
		t.Errorf("run %s is in folder %s", doc.RunID, runs[0])
	}
}
