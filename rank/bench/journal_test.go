package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

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
