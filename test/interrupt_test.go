package test

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/artifact"
)

// A signal in the middle of a run that would take minutes leaves valid partial documents. The launcher's status is that of the signal where the signal
// asks it to end, else that of the ranks, which is also what a rank alone ends with.
func TestSignalStopsAtTheNextPoint(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranks  int // 0: without the launcher
		signal syscall.Signal
		status int
	}{
		{"ctrl-c", 2, syscall.SIGINT, 130},
		{"SIGTERM", 2, syscall.SIGTERM, 143},
		{"SIGUSR1", 2, syscall.SIGUSR1, 3},
		{"SIGTERM alone", 0, syscall.SIGTERM, 3},
		{"SIGUSR1 alone", 0, syscall.SIGUSR1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			interrupt(t, c.ranks, c.signal, c.status)
		})
	}
}

func interrupt(t *testing.T, ranks int, signal syscall.Signal, status int) {
	dir := t.TempDir()
	args := []string{"fpmbench", "--engine", "sim", "--model", "llama-3.1-8b", "--output-path", "out/benchmark.json"}
	if ranks > 0 {
		args = append([]string{"fpmrun", "-np", strconv.Itoa(ranks)}, args...)
	}
	cmd := command(t, dir, args[0], args[1:]...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	interrupted := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if !interrupted && strings.Contains(lines.Text(), " points, ") {
			interrupted = true
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != status {
		t.Fatalf("status %d (%v), want %d\n%s", cmd.ProcessState.ExitCode(), err, status, text.String())
	}
	files, all := rankFiles(filepath.Join(dir, "out"), max(1, ranks))
	for _, path := range files {
		doc := read(t, path)
		if doc.Status != "partial" || !doc.Usable || doc.Valid || len(doc.Results) == 0 || len(doc.Results) >= doc.Coverage.Expected {
			t.Errorf("%s: status %s, usable %v, valid %v, %d of %d points", path, doc.Status, doc.Usable, doc.Valid, len(doc.Results), doc.Coverage.Expected)
		}
	}
	var docs []*artifact.Document
	for _, path := range files {
		d, err := artifact.ReadDocument(path)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	if _, err := artifact.Merge(docs, "merged.json"); err != nil {
		t.Errorf("the partial documents do not merge: %v", err)
	}
	check(t, all...)
	for rank, path := range files {
		j, err := artifact.ReadJournal(artifact.JournalPath(filepath.Join(dir, "out", "benchmark.json"), rank))
		if doc := read(t, path); err != nil || len(j.Points) != len(doc.Results) {
			t.Errorf("rank %d: the journal holds %d points, the document %d (%v)", rank, len(j.Points), len(doc.Results), err)
		}
	}
}

// The soft limit stops at a point boundary with exit status 3 and usable documents.
func TestTimeoutLeavesPartialRun(t *testing.T) {
	dir := t.TempDir()
	r := execute(t, dir, "fpmrun", "-np", "2", "fpmbench", "--timeout", "0.001", "--output-path", "benchmark.json")
	if r.status != 3 || !strings.Contains(r.stderr, "stopped early by the time limit") {
		t.Fatalf("status %d, want 3 and the reason\n%s", r.status, r.stderr)
	}
	doc := read(t, filepath.Join(dir, "benchmark_dp1.json"))
	if doc.Status != "partial" || doc.StopReason == nil || *doc.StopReason != "timeout" || len(doc.Results) != 1 {
		t.Errorf("status %s, stop_reason %v, %d results: want the one point that a run always measures", doc.Status, doc.StopReason, len(doc.Results))
	}
}

// A full disk is one clear error; files that were there are untouched and no torn file has a final name. With room again, the run goes on with what
// its journals hold.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	earlier := filepath.Join(dir, "earlier.json")
	if err := os.WriteFile(earlier, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := execute(t, t.TempDir(), "fpmrun", "-np", "2", "fpmbench", "--points-file", points(t), "--output-path", filepath.Join(dir, "benchmark.json"))
	if r.status != 1 || !strings.Contains(r.stderr, "no space left on device") || !strings.Contains(r.stderr, dir) {
		t.Errorf("status %d, want 1 and an error that names the folder\n%s", r.status, r.stderr)
	}
	if text, err := os.ReadFile(earlier); err != nil || string(text) != "{}" {
		t.Errorf("the earlier file is %q (%v)", text, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "benchmark*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		if _, err := artifact.ReadDocument(path); err != nil {
			t.Errorf("left behind: %v", err)
		}
	}
	base := filepath.Join(dir, "benchmark.json")
	before, err := artifact.ReadJournal(artifact.JournalPath(base, 1))
	if err != nil || len(before.Points) == 0 {
		t.Fatalf("the journal holds %d points (%v)", len(before.Points), err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, t.TempDir(), "fpmrun", "-np", "2", "fpmbench", "--points-file", points(t), "--resume", dir); r.status != 0 {
		t.Fatalf("with room again: status %d\n%s", r.status, r.stderr)
	}
	files, all := rankFiles(dir, 2)
	check(t, all...)
	after := read(t, files[1])
	for i, p := range before.Points {
		if got, want := after.Results[i].FPMs[0].WallTime, p.Group.RankResults[1].FPMs[0].WallTime; got != want {
			t.Errorf("measurement %d took %v and is now %v", i, want, got)
		}
	}
}
