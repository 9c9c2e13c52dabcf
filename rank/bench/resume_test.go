package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// errKilled ends a rank in the middle of a step.
var errKilled = errors.New("killed")

// into lets all ranks of a run write to one folder, and change their settings.
func into(dir string, change func(rank int, c *Config, f *fake)) func(int, *Config, *fake) {
	return func(rank int, c *Config, f *fake) {
		c.OutputPath, c.History = filepath.Join(dir, "benchmark.json"), &artifact.History{}
		c.Launch = artifact.Launch{Version: "test", Host: "h", PID: rank}
		if change != nil {
			change(rank, c, f)
		}
	}
}

// killAfter ends a rank in the step after n.
func killAfter(victim, n int) func(int, *Config, *fake) {
	return func(rank int, _ *Config, f *fake) {
		f.before = func(context.Context, *gpu.Step) error {
			if rank == victim && len(f.steps) > n {
				return errKilled
			}
			return nil
		}
	}
}

func resume(_ int, c *Config, _ *fake) { c.Resume = true }

// checked asserts that resumed documents are valid, also by the rules of readers, and hold the points that the journals had, unchanged.
func checked(t *testing.T, outcomes []outcome, before []*artifact.Journal) {
	t.Helper()
	unchanged(t, outcomes, before)
	dir := t.TempDir()
	var paths []string
	for rank, o := range outcomes {
		o.doc.FPMRun = o.session.cfg.History
		paths = append(paths, artifact.RankPath(filepath.Join(dir, "benchmark.json"), rank))
		if err := artifact.WriteFile(paths[rank], o.doc); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range artifact.CheckFiles(paths) {
		for _, v := range r.Violations {
			t.Errorf("%s: %s", filepath.Base(r.Path), v)
		}
	}
}

// unchanged asserts that documents are complete and hold the points that the journals had.
func unchanged(t *testing.T, outcomes []outcome, before []*artifact.Journal) {
	t.Helper()
	for rank, o := range outcomes {
		if o.err != nil {
			t.Fatalf("rank %d: %v", rank, o.err)
		}
		if !o.doc.Valid || o.doc.Status != "complete" {
			t.Errorf("rank %d: status %s, %+v", rank, o.doc.Status, o.doc.Coverage)
		}
		if before == nil {
			continue
		}
		for i, p := range before[rank].Points[:len(shortest(before))] {
			if got, want := jsonOf(t, o.doc.Groups[i]), jsonOf(t, p.Group); got != want {
				t.Errorf("rank %d: measurement %d is\n%s\nand was\n%s", rank, i, got, want)
			}
		}
	}
}

func shortest(journals []*artifact.Journal) []artifact.JournalPoint {
	points := journals[0].Points
	for _, j := range journals {
		if len(j.Points) < len(points) {
			points = j.Points
		}
	}
	return points
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func journals(t *testing.T, dir string, ranks int) []*artifact.Journal {
	t.Helper()
	js := make([]*artifact.Journal, ranks)
	for rank := range js {
		var err error
		if js[rank], err = artifact.ReadJournal(artifact.JournalPath(filepath.Join(dir, "benchmark.json"), rank)); err != nil {
			t.Fatal(err)
		}
	}
	return js
}

// A run of three ranks is killed again and again, a few steps later each time, and goes on each time until it is complete.
func TestResumeAfterEachKill(t *testing.T) {
	const ranks = 3
	dir := t.TempDir()
	change := killAfter(1, 12)
	kills := 0
	for {
		var before []*artifact.Journal
		if kills > 0 {
			before = journals(t, dir, ranks)
		}
		outcomes, _ := runAll(t, ranks, into(dir, func(rank int, c *Config, f *fake) {
			c.Resume = kills > 0
			change(rank, c, f)
		}))
		if outcomes[1].err == nil {
			checked(t, outcomes, before)
			if kills < 3 {
				t.Errorf("only %d kills", kills)
			}
			for rank, o := range outcomes {
				history := o.session.cfg.History.Processes
				measured := 0
				for i, p := range history {
					if p.Process != i+1 {
						t.Errorf("rank %d: process %d of the history is number %d", rank, i, p.Process)
					}
					if (p.Preparation != nil) != (i > 0 && len(p.Points) > 0) {
						t.Errorf("rank %d: process %d with points %v: preparation %+v", rank, p.Process, p.Points, p.Preparation)
					}
					for _, span := range p.Points {
						measured += span[1] - span[0] + 1
					}
				}
				if len(history) != kills+1 || measured != len(o.doc.Results) {
					t.Errorf("rank %d: %d processes measured %d of %d points", rank, len(history), measured, len(o.doc.Results))
				}
			}
			return
		}
		kills++
		change = killAfter(kills%ranks, 12+3*kills)
	}
}

// Only what is missing is measured, replicas only of the shapes that are, and a complete run measures nothing at all.
func TestResumeMeasuresWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	first, _ := runAll(t, 2, into(dir, func(_ int, _ *Config, f *fake) { f.stopAfter = 14 }))
	for rank, o := range first {
		if !o.stopped || o.err != nil {
			t.Fatalf("rank %d: stopped %v (%v)", rank, o.stopped, o.err)
		}
	}
	before := journals(t, dir, 2)
	second, fakes := runAll(t, 2, into(dir, resume))
	checked(t, second, before)
	for rank, o := range second {
		done := len(first[rank].doc.Results)
		for _, record := range o.doc.Ledger.Records[len(first[rank].doc.Ledger.Records):] {
			if record.Kind == artifact.WarmupGlobal || record.CompletedPointsBefore < done {
				t.Errorf("rank %d: ledger has %+v after the first process", rank, record)
			}
		}
		last := o.doc.Results[len(o.doc.Results)-1].FPMs[0].Measurement.Raw
		if got, want := last[len(last)-1].Sample.ForwardIndex+1, before[rank].Points[len(before[rank].Points)-1].Forwards+len(fakes[rank].steps); got != want {
			t.Errorf("rank %d: %d forwards, want %d: the counter goes on from the journal's", rank, got, want)
		}
		if o.doc.Timing.Elapsed <= first[rank].doc.Timing.Measured || *o.doc.Timing.StartedAt != *first[rank].doc.Timing.StartedAt {
			t.Errorf("rank %d: timing %+v", rank, o.doc.Timing)
		}
	}
	third, idle := runAll(t, 2, into(dir, resume))
	checked(t, third, journals(t, dir, 2))
	for rank, f := range idle {
		if len(f.steps) > 0 {
			t.Errorf("rank %d: %d steps although everything was measured", rank, len(f.steps))
		}
		if got, want := jsonOf(t, third[rank].doc.Groups), jsonOf(t, second[rank].doc.Groups); got != want {
			t.Errorf("rank %d: measured points changed", rank)
		}
	}
}

// Cut at any byte, the journal of a small run is gone on with to a complete run, in which what was whole is unchanged. Tried are the bytes near each
// record's begin and every 19th; with FPM_EVERY_PREFIX=1 all of them.
func TestResumeFromEveryPrefix(t *testing.T) {
	small := func(_ int, c *Config, _ *fake) {
		c.Mode, c.WarmupIterations = artifact.Prefill, 1
		c.Samples = artifact.Samples{PrefillNewTokens: 2, PrefillKVTokens: 2, PrefillBatches: 1, DecodeKVTokens: 2, DecodeBatches: 2}
		c.PrefixCaching = false
	}
	dir := t.TempDir()
	runAll(t, 1, into(dir, small))
	path := filepath.Join(dir, "benchmark.journal")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]bool{}
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		before := journals(t, dir, 1)
		if before[0].Torn > 10 && n%19 != 0 && os.Getenv("FPM_EVERY_PREFIX") == "" {
			continue
		}
		outcomes, _ := runAll(t, 1, into(dir, func(rank int, c *Config, f *fake) {
			small(rank, c, f)
			c.Resume = true
		}))
		if n%64 == 0 || n == len(whole) {
			checked(t, outcomes, before)
		} else {
			unchanged(t, outcomes, before)
		}
		if t.Failed() {
			t.Fatalf("cut at byte %d of %d", n, len(whole))
		}
		counts[len(before[0].Points)] = true
	}
	if want := map[int]bool{0: true, 1: true, 2: true}; !reflect.DeepEqual(counts, want) {
		t.Errorf("the prefixes held %v points, want each of %v", counts, want)
	}
}

// What decode points over real KV were made of goes on too: the chains are built again, and the counts are those of the whole run.
func TestResumeOverRealKV(t *testing.T) {
	dir := t.TempDir()
	text := func(rank int, c *Config, f *fake) {
		onText(c)
		killAfter(1, 40)(rank, c, f)
	}
	runAll(t, 2, into(dir, text))
	before := journals(t, dir, 2)
	stages := 0
	for _, p := range before[0].Points {
		stages += len(p.Stages)
	}
	if len(before[0].Points) == 0 || stages == 0 {
		t.Fatalf("%d points and %d stages before the kill", len(before[0].Points), stages)
	}
	outcomes, _ := runAll(t, 2, into(dir, func(_ int, c *Config, _ *fake) {
		onText(c)
		c.Resume = true
	}))
	checked(t, outcomes, before)
	for rank, o := range outcomes {
		realKV := 0
		for _, r := range o.doc.Results {
			if r.KVSeedRegime == artifact.RegimeRealKV {
				realKV++
			}
		}
		if w := o.doc.KVWarm; w.PointsRealKV != realKV || realKV <= len(before[rank].Points) || len(w.Stages) <= stages {
			t.Errorf("rank %d: %d points over real KV of %d, %d stages after %d", rank, w.PointsRealKV, realKV, len(w.Stages), stages)
		}
	}
	other, _ := runAll(t, 2, into(dir, func(_ int, c *Config, _ *fake) {
		onText(c)
		c.Resume = true
		c.Text.Source.SHA256 = strings.Repeat("b", 64)
	}))
	if err := other[0].err; !errors.Is(err, ErrResume) || !strings.Contains(err.Error(), "text.sha256 is") {
		t.Errorf("another text: %v", err)
	}
}

// However short the time limit is, every process gets one point further.
func TestEveryProcessMakesProgress(t *testing.T) {
	dir := t.TempDir()
	for process := 1; ; process++ {
		outcomes, _ := runAll(t, 2, into(dir, func(_ int, c *Config, _ *fake) {
			c.Mode, c.Timeout, c.Resume = artifact.Decode, time.Nanosecond, process > 1
			c.Samples.DecodeKVTokens, c.Samples.DecodeBatches = 2, 2
		}))
		for rank, o := range outcomes {
			if o.err != nil || len(o.doc.Results) != process {
				t.Fatalf("process %d, rank %d: %d results (%v)", process, rank, len(o.doc.Results), o.err)
			}
		}
		if outcomes[0].doc.Status == "complete" {
			checked(t, outcomes, nil)
			if process < 3 {
				t.Errorf("only %d processes", process)
			}
			return
		}
	}
}
