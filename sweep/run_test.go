package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// programs are shell programs in the place of fpmrun, fpmbench and fpmstat. The one for fpmrun finds its folder in $dir.
func programs(t *testing.T, run string) Programs {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return Programs{
		Run:   write("fpmrun", "for word; do case $word in --resume=*) dir=${word#--resume=} ;; esac; done\necho launch >>$dir/launches\n"+run),
		Bench: write("fpmbench", "case \"$*\" in *bad*) echo 'fpmbench: model bad is not known' >&2; exit 2 ;; esac\necho 'prefill points      7'\necho 'decode points 3'\n"),
		Stat:  write("fpmstat", `shift; for f; do case $(cat $f) in *fault*) echo "$f: a fault"; exit 1 ;; esac; done`),
	}
}

const writes = `echo '{"run_id": "r"}' >$dir/benchmark.json`

func runner(t *testing.T, text string, p Programs) (*Runner, *bytes.Buffer) {
	t.Helper()
	f, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := f.Cells()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	return &Runner{Cells: cells, Output: t.TempDir(), Retries: f.Retries, Programs: p, Environ: os.Environ(), Log: &log}, &log
}

func mustRun(t *testing.T, r *Runner) *Report {
	t.Helper()
	report, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func launches(t *testing.T, row *Row) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(row.Folder, "launches"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// How a run ends decides what the sweep does next.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name, run string
		status    Status
		launches  int
		exit      int
		why       string
	}{
		{"finished", writes, Finished, 1, ExitComplete, ""},
		{"fails once", `[ -e $dir/second ] || { : >$dir/second; echo cause >&2; exit 7; }; ` + writes, Finished, 2, ExitComplete, ""},
		{"fails always", `echo "first"; echo the cause >&2; exit 7`, Failed, 3, ExitFailed, "the cause"},
		{"stopped early with usable results", writes + `; exit 3`, Failed, 3, ExitFailed, ""},
		{"wrong flags stay wrong", `echo wrong; exit 2`, Failed, 1, ExitFailed, "wrong"},
		{"killed", `kill -9 $$`, Failed, 3, ExitFailed, ""},
		{"no document", `true`, Failed, 3, ExitFailed, "exited with status 0 and wrote no document"},
		{"a document with a fault", `echo fault >$dir/benchmark.json`, Failed, 3, ExitFailed, "a fault"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, log := runner(t, "output: o\nretries: 2", programs(t, c.run))
			report := mustRun(t, r)
			row := &report.Runs[0]
			if row.Status != c.status || row.Launches != c.launches || launches(t, row) != c.launches || report.Exit() != c.exit || !strings.Contains(row.Why, c.why) {
				t.Errorf("%s after %d launches (%d seen), exit status %d, why %q; want %s after %d, %d, %q\n%s", row.Status, row.Launches, launches(t, row), report.Exit(), row.Why, c.status, c.launches, c.exit, c.why, log)
			}
			if row.Points != 10 {
				t.Errorf("%d points, want fpmbench's 7 and 3", row.Points)
			}
		})
	}
}

// A second start launches what is not finished, and a finished run again only when its documents are gone or changed.
func TestGoesOn(t *testing.T) {
	r, _ := runner(t, "output: o\nmatrix: {model: [a, b, c]}", programs(t, `case $dir in *b) [ -e $dir/../allowed ] || exit 1 ;; esac; `+writes))
	counts := func(want ...int) {
		t.Helper()
		report := mustRun(t, r)
		for i := range report.Runs {
			if got := launches(t, &report.Runs[i]); got != want[i] {
				t.Errorf("%s: %d launches, want %d", report.Runs[i].Name, got, want[i])
			}
		}
	}
	counts(1, 1, 1)
	if err := os.WriteFile(filepath.Join(r.Output, "allowed"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	counts(1, 2, 1)
	counts(1, 2, 1)
	for _, damage := range []func() error{
		func() error { return os.Remove(filepath.Join(r.Output, "a", "benchmark.json")) },
		func() error { return os.WriteFile(filepath.Join(r.Output, "c", "benchmark.json"), []byte("{}"), 0o644) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
	}
	counts(2, 2, 2)
}

// Nothing is started when one cell has flags that fpmbench refuses, when a finished run was another one, or when a variable would lead runs astray.
func TestRefusedBeforeTheFirstRun(t *testing.T) {
	p := programs(t, writes)
	r, _ := runner(t, "output: o\nmatrix: {model: [a, bad]}", p)
	if _, err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "bad: fpmbench: model bad is not known (status 2)") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.Output, "a")); err == nil {
		t.Error("the first run was begun")
	}
	r, _ = runner(t, "output: o\nmatrix: {model: [a]}", p)
	mustRun(t, r)
	r.Cells[0].Digest = "other"
	if _, err := r.Run(t.Context()); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "is finished, with other flags or points") {
		t.Errorf("error %v", err)
	}
	if err := os.RemoveAll(filepath.Join(r.Output, "a")); err != nil {
		t.Fatal(err)
	}
	if report := mustRun(t, r); report.Runs[0].Status != Finished || launches(t, &report.Runs[0]) != 1 {
		t.Errorf("%+v, want a new run in the place of the one whose folder was deleted", report.Runs[0])
	}
	r, _ = runner(t, "output: o", p)
	r.Environ = append(r.Environ, "FPM_REPEAT=3")
	if _, err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "FPM_REPEAT=3 is set") {
		t.Errorf("error %v", err)
	}
}

// Only one sweep works in a folder.
func TestFolderIsTaken(t *testing.T) {
	r, _ := runner(t, "output: o", programs(t, writes))
	lock, err := lockFolder(t.Context(), r.Output)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context()); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "works there") {
		t.Errorf("error %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	mustRun(t, r)
}

// What a run starts keeps the folder taken as long as it lives, and the next sweep waits for its end.
func TestLeftoversAreWaitedFor(t *testing.T) {
	r, _ := runner(t, "output: o\nmatrix: {model: [a]}", programs(t, `mkfifo $dir/end; (read x <$dir/end; echo gone >$dir/gone) >/dev/null 2>&1 & `+writes))
	report := mustRun(t, r)
	dir := report.Runs[0].Folder
	probe, err := os.Open(filepath.Join(r.Output, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	if err := unix.Flock(int(probe.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("the folder is free (%v), although a process of the run lives", err)
	}
	// The owner that the lock names is no process any more.
	if err := os.WriteFile(filepath.Join(r.Output, lockName), []byte("999999999\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context())
		done <- err
	}()
	if err := os.WriteFile(filepath.Join(dir, "end"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "gone")); err != nil {
		t.Error("the sweep went on before the process was gone")
	}
}

// A signal is passed on, ends the sweep after the run, and is its exit status; the next start goes on.
func TestSignal(t *testing.T) {
	r, _ := runner(t, "output: o\nretries: 3\nmatrix: {model: [a, b]}", programs(t, `trap 'exit 130' INT; mkfifo $dir/up 2>/dev/null; echo up >$dir/up; while :; do read x <$dir/up; done`))
	signals := make(chan os.Signal, 1)
	r.Signals = signals
	go func() {
		// The program has set its trap when the fifo has a writer.
		for {
			if f, err := os.Open(filepath.Join(r.Output, "a", "up")); err == nil {
				_, _ = f.Read(make([]byte, 3))
				f.Close()
				break
			}
		}
		signals <- syscall.SIGINT
	}()
	report := mustRun(t, r)
	if a, b := report.Runs[0], report.Runs[1]; a.Status != Stopped || a.Launches != 1 || b.Status != Waiting || report.Exit() != 130 {
		t.Errorf("%s after %d launches, then %s, exit status %d; want stopped after 1, waiting, 130", a.Status, a.Launches, b.Status, report.Exit())
	}
}

// A budget that is used up begins no further run.
func TestBudget(t *testing.T) {
	r, _ := runner(t, "output: o\nmatrix: {model: [a, b]}", programs(t, writes))
	r.Budget = 1
	report := mustRun(t, r)
	if !report.OutOfBudget || report.Count(Waiting) != 2 || report.Exit() != ExitIncomplete {
		t.Errorf("%d waiting, exit status %d; want 2 and %d", report.Count(Waiting), report.Exit(), ExitIncomplete)
	}
}

// The cost is said at the pace of the runs that are finished; the JSON has it too.
func TestEstimate(t *testing.T) {
	report := &Report{Runs: []Row{
		{Name: "a", Ranks: 2, Entry: Entry{Status: Finished, Points: 10, Seconds: 20}},
		{Name: "b", Ranks: 4, Entry: Entry{Status: Waiting, Points: 30}},
		{Name: "c", Ranks: 1, Entry: Entry{Status: Failed, Points: 30, Seconds: 1}},
	}}
	report.guess()
	if got, want := report.estimate(), "2 of 3 runs to do, 60 points, about 2m0s, 0.0833 rank-hours, at the pace of the finished runs"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	report.Runs[0].Status = Failed
	report.guess()
	for i := range report.Runs {
		report.Runs[i].Most = 900
	}
	if got, want := report.estimate(), "3 of 3 runs to do, 70 points, at most 45m0s by fpmbench's --timeout; how long it takes is known once one is finished"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	report.Runs[0].Status = Finished
	report.guess()
	text, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(text), `"estimate_seconds":60`) {
		t.Errorf("JSON %s (%v)", text, err)
	}
}

func TestBound(t *testing.T) {
	for _, c := range []struct {
		bench, environ []string
		want           time.Duration
	}{
		{nil, nil, benchTimeout},
		{[]string{"--model=a"}, []string{"FPM_TIMEOUT=60"}, time.Minute},
		{[]string{"--timeout=2h"}, []string{"FPM_TIMEOUT=60"}, 2 * time.Hour},
		{[]string{"--timeout=soon"}, nil, benchTimeout},
	} {
		if got := bound(&Cell{Bench: c.bench}, c.environ); got != c.want {
			t.Errorf("%q, %q: %v, want %v", c.bench, c.environ, got, c.want)
		}
	}
}
