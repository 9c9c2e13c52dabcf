package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Whatever differs from the earlier run is refused on every rank, with both values, before any step; journals and grid stay as they are.
func TestResumeRefusesAnotherRun(t *testing.T) {
	dir := t.TempDir()
	runAll(t, 2, into(dir, func(_ int, _ *Config, f *fake) { f.stopAfter = 14 }))
	before, err := os.ReadFile(filepath.Join(dir, "benchmark.journal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"content seed", func(c *Config) { c.ContentSeed = "7" }, `content seed is "0" in the journal and "7" now`},
		{"protocol", func(c *Config) { c.WarmupIterations = 6 }, "measurement_protocol.preparation.warmup_iterations is 5 in the journal and 6 now"},
		{"grid", func(c *Config) { c.Samples.DecodeKVTokens = 2 }, "number of points is"},
		{"engine", func(c *Config) { c.Engine.Attention = nil }, "engine.attention.backend_per_kind is"},
		{"mode", func(c *Config) { c.Mode = artifact.Decode }, "mode is agg in the journal and decode now"},
	} {
		outcomes, fakes := runAll(t, 2, into(dir, func(_ int, cfg *Config, _ *fake) {
			cfg.Resume = true
			c.change(cfg)
		}))
		for rank, o := range outcomes {
			if !errors.Is(o.err, ErrResume) || c.name != "engine" && !strings.Contains(o.err.Error(), c.want) || !strings.Contains(o.err.Error(), "rank 1") {
				t.Errorf("%s: rank %d: got %v, want %q", c.name, rank, o.err, c.want)
			}
			if len(fakes[rank].steps) > 0 || o.session.Began() {
				t.Errorf("%s: rank %d: %d steps, began %v", c.name, rank, len(fakes[rank].steps), o.session.Began())
			}
		}
	}
	after, err := os.ReadFile(filepath.Join(dir, "benchmark.journal"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the refused runs changed the journal (%v)", err)
	}
}

// Journals of two runs in one folder are refused.
func TestResumeRefusesMixedJournals(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		comms := world(t, 2)
		done := make(chan error, 2)
		for rank := range 2 {
			c, f := settings(t), &fake{stopAfter: 14}
			into(dir, nil)(rank, &c, f)
			s, err := New(c, f, comms[rank])
			if err != nil {
				t.Fatal(err)
			}
			f.session = s
			go func() {
				_, _, err := s.Run(t.Context(), strings.Repeat(fmt.Sprint(i), 32))
				done <- err
			}()
		}
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(dirs[1], "benchmark_dp1.journal"), filepath.Join(dirs[0], "benchmark_dp1.journal")); err != nil {
		t.Fatal(err)
	}
	outcomes, _ := runAll(t, 2, into(dirs[0], resume))
	for rank, o := range outcomes {
		if !errors.Is(o.err, ErrResume) || !strings.Contains(o.err.Error(), "the journals are not of one run") || !strings.Contains(o.err.Error(), strings.Repeat("1", 32)) {
			t.Errorf("rank %d: %v", rank, o.err)
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

// The journal grows between points only, never inside a timed step.
func TestJournalIsWrittenBetweenPoints(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "benchmark.journal")
	sizes := map[int]int64{} // results so far -> size seen in the steps after them
	runAll(t, 1, into(dir, func(_ int, _ *Config, f *fake) {
		f.before = func(context.Context, *gpu.Step) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			done := len(f.session.doc.Results)
			if size, seen := sizes[done]; seen && size != info.Size() {
				t.Errorf("the journal grew from %d to %d bytes after point %d", size, info.Size(), done)
			}
			sizes[done] = info.Size()
			return nil
		}
	}))
	for done := 1; sizes[done] != 0; done++ {
		if sizes[done] <= sizes[done-1] {
			t.Errorf("point %d was not written before the next one started", done)
		}
	}
	if len(sizes) < 5 {
		t.Errorf("sizes after %d points only", len(sizes))
	}
}

// A journal that cannot be written ends the run with the path in its error; what it held before is there and the run goes on later.
func TestFullJournal(t *testing.T) {
	dir := t.TempDir()
	outcomes, _ := runAll(t, 1, into(dir, func(_ int, _ *Config, f *fake) {
		f.before = func(context.Context, *gpu.Step) error {
			if len(f.session.doc.Results) == 3 {
				return f.session.journal.writer.Close()
			}
			return nil
		}
	}))
	if err := outcomes[0].err; err == nil || !strings.Contains(err.Error(), "keep point 4") || !strings.Contains(err.Error(), "benchmark.journal") {
		t.Fatalf("got %v", err)
	}
	before := journals(t, dir, 1)
	if len(before[0].Points) != 3 {
		t.Fatalf("%d points are kept, want 3", len(before[0].Points))
	}
	again, _ := runAll(t, 1, into(dir, resume))
	checked(t, again, before)
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

// A journal that is gone is no reason to measure everything again without a word.
func TestResumeWithoutOneJournal(t *testing.T) {
	dir := t.TempDir()
	runAll(t, 2, into(dir, func(_ int, _ *Config, f *fake) { f.stopAfter = 14 }))
	if err := os.Remove(filepath.Join(dir, "benchmark_dp1.journal")); err != nil {
		t.Fatal(err)
	}
	outcomes, _ := runAll(t, 2, into(dir, resume))
	for rank, o := range outcomes {
		if !errors.Is(o.err, ErrResume) || !strings.Contains(o.err.Error(), "rank 1: there is no journal") || !strings.Contains(o.err.Error(), "benchmark_dp1.journal") {
			t.Errorf("rank %d: %v", rank, o.err)
		}
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
