package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sweepState is what sweep.json says of each run.
type sweepState struct {
	Runs map[string]struct {
		Status   string
		Launches int
		Files    map[string]string
	}
}

func readSweep(t *testing.T, dir string) sweepState {
	t.Helper()
	var s sweepState
	text, err := os.ReadFile(filepath.Join(dir, "sweep.json"))
	if os.IsNotExist(err) {
		return s
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// sweepFile writes a sweep of models x phases x ranks over some points, and an output folder that is not there yet.
func sweepFile(t *testing.T, models, ranks string) (file, output string) {
	t.Helper()
	dir := t.TempDir()
	output = filepath.Join(dir, "out")
	file = filepath.Join(dir, "sweep.yaml")
	text := fmt.Sprintf("output: %s\nfpmbench: {points-file: %s}\nmatrix:\n  model: [%s]\n  mode: [prefill, decode]\n  np: [%s]\n", output, pointsFile(t, false), models, ranks)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, output
}

// A sweep that is killed with SIGKILL at random moments ends complete, and a run that was finished is never launched again. FPM_SWEEP_KILLS is the number
// of kills over sweeps of 12 runs; without it there are a few over sweeps of 4.
func TestSweepIsKilled(t *testing.T) {
	kills, models, ranks, runs := 3, "tiny", "1, 2", 4
	if text := os.Getenv("FPM_SWEEP_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		models, ranks, runs = "tiny, tiny-moe", "1, 2, 3", 12
	}
	marker := "FPM_TEST_MARKER=" + t.Name() + strconv.Itoa(os.Getpid())
	whole := 2 * time.Second
	for killed, sweeps := 0, 0; killed < kills; sweeps++ {
		file, output := sweepFile(t, models, ranks)
		finished := map[string]map[string]string{} // documents of runs that were finished, when first seen so
		launches := map[string]int{}
		for began := time.Now(); ; {
			cmd := command(t, t.TempDir(), "fpmrun", "sweep", file)
			cmd.Env = append(cmd.Env, marker)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			moment := make(<-chan time.Time)
			if killed < kills {
				moment = time.After(rand.N(whole/4) + time.Millisecond)
			}
			var err error
			select {
			case err = <-ended:
			case <-moment:
				killed++
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				err = <-ended
			}
			state := readSweep(t, output)
			for name, run := range state.Runs {
				if run.Status != "finished" {
					if finished[name] != nil {
						t.Fatalf("%s was finished and is %s", name, run.Status)
					}
					continue
				}
				if before := finished[name]; before != nil && (launches[name] != run.Launches || fmt.Sprint(before) != fmt.Sprint(run.Files)) {
					t.Fatalf("%s was finished after %d launches, and launched again: %d", name, launches[name], run.Launches)
				}
				finished[name], launches[name] = run.Files, run.Launches
			}
			if err == nil {
				whole = max(time.Since(began), 100*time.Millisecond)
				break
			}
			if cmd.ProcessState.Exited() {
				t.Fatalf("exited with status %d\n%s", cmd.ProcessState.ExitCode(), &said)
			}
		}
		if len(finished) != runs {
			t.Errorf("%d runs are finished, want %d", len(finished), runs)
		}
		for name := range finished {
			documents, err := filepath.Glob(filepath.Join(output, name, "benchmark*.json"))
			if err != nil || len(documents) == 0 {
				t.Fatalf("%s: documents %v (%v)", name, documents, err)
			}
			check(t, documents...)
		}
		for _, path := range everyDocument(t, output) {
			if strings.Count(strings.TrimPrefix(path, output), "/") != 2 {
				t.Errorf("%s is not in the folder of one run", path)
			}
		}
		t.Logf("sweep %d: %d kills so far", sweeps+1, killed)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		left := processesWith(marker)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %q", left)
		}
	}
}

// An interrupt reaches the run, which keeps what it measured; the sweep ends with the signal's status, and the next start measures what is left.
func TestSweepIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sweep.yaml")
	text := fmt.Sprintf("output: out\nfpmrun: {np: 2}\nfpmbench: {engine: sim, mode: prefill, points-file: %s}\nmatrix: {model: [llama-3.1-8b]}\n", longPoints(t, 30))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, dir, "fpmrun", "sweep", file)
	said := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(60 * time.Second); ; <-again.C {
		if info, err := os.Stat(filepath.Join(dir, "out", "llama-3.1-8b", "benchmark.journal")); err == nil && info.Size() > 8192 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no point was measured\n%s", said)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || readSweep(t, filepath.Join(dir, "out")).Runs["llama-3.1-8b"].Status != "stopped" {
		t.Errorf("status %d, %+v; want 130 and a run that was stopped\n%s", cmd.ProcessState.ExitCode(), readSweep(t, filepath.Join(dir, "out")), said)
	}
	r := succeed(t, dir, "fpmrun", "sweep", file)
	doc := read(t, filepath.Join(dir, "out", "llama-3.1-8b", "benchmark.json"))
	own, err := json.Marshal(doc.FPMRun)
	if err != nil || len(doc.Results) != 30 || strings.Count(string(own), `"process":`) < 2 {
		t.Errorf("%d results by the processes of %.400s (%v)\n%s", len(doc.Results), own, err, r.stderr)
	}
}

// everyDocument are the files below a folder that readers take for documents.
func everyDocument(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if ok, _ := filepath.Match("benchmark*.json", filepath.Base(path)); ok {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// processesWith are the processes that have a word in their environment.
func processesWith(word string) []string {
	var left []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if environ, err := os.ReadFile(file); err == nil && bytes.Contains(environ, []byte(word+"\x00")) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			left = append(left, strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return left
}

// The example is a plan of eight runs, each a command line for a shell.
func TestSweepExample(t *testing.T) {
	file, err := filepath.Abs("../examples/sweep.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := succeed(t, dir, "fpmrun", "sweep", "--dry-run", file)
	if strings.Count(r.stdout, "/fpmbench --engine=cpu ") != 8 || !strings.Contains(r.stdout, "# 8 of 8 runs to do, ") {
		t.Errorf("stdout:\n%s", r.stdout)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the dry run left %v (%v)", entries, err)
	}
}

// The preset makes one launch for each layout and phase, each with a run id of its own, and documents that the readers' rules accept.
func TestSweepOfCollectors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sweep.yaml")
	text := fmt.Sprintf("output: out\nfpmbench: {points-file: %s, model: tiny-moe}\npreset: {collectors: {gpus: [1, 2], layouts: [pure_tp, tep, dep]}}\n", pointsFile(t, false))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r := succeed(t, dir, "fpmrun", "sweep", "--json", file)
	var report struct {
		Runs []struct {
			Name, Folder, Status string
			RunID                string `json:"run_id"`
		}
		Exit int `json:"exit_status"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	ids := map[string]bool{}
	for _, run := range report.Runs {
		ids[run.RunID] = true
		doc := read(t, filepath.Join(dir, run.Folder, "benchmark.json"))
		if mode := doc.Config.Mode; run.Status != "finished" || doc.RunID != run.RunID || !strings.Contains(run.Name, mode) {
			t.Errorf("%s: %s, mode %s, run %s and %s", run.Name, run.Status, mode, run.RunID, doc.RunID)
		}
	}
	if len(report.Runs) != 8 || len(ids) != 8 || report.Exit != 0 {
		t.Errorf("%d runs with %d run ids, exit status %d; want 8, 8 and 0\n%s", len(report.Runs), len(ids), report.Exit, r.stderr)
	}
}
