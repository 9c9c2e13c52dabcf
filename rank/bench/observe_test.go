package bench

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/rank/evidence/evidencetest"
)

// watched is into with host evidence.
func watched(dir string, change func(rank int, c *Config, f *fake)) func(int, *Config, *fake) {
	return into(dir, func(rank int, c *Config, f *fake) {
		c.HostEvidence = true
		if change != nil {
			change(rank, c, f)
		}
	})
}

// Every measured point of every rank has its evidence, with one entry for each raw sample; preparation has none.
func TestEvidenceOfEachPoint(t *testing.T) {
	outcomes, _ := runAll(t, 2, watched(t.TempDir(), func(_ int, c *Config, _ *fake) {
		c.GiantKVThreshold = 0 // repeated decode points too
	}))
	checked(t, outcomes, nil)
	for rank, o := range outcomes {
		points := o.session.cfg.History.Points
		if len(points) != len(o.doc.Results) {
			t.Fatalf("rank %d: evidence of %d points, %d results", rank, len(points), len(o.doc.Results))
		}
		for i, r := range o.doc.Results {
			raw := r.FPMs[0].Measurement.Raw
			if p := points[i]; p.BenchmarkID != r.Point.BenchmarkID || len(p.Steps) != len(raw) || p.Steps[0].ForwardIndex != raw[0].Sample.ForwardIndex || p.Before.CPUs == "" || p.After.Load == nil {
				t.Errorf("rank %d: result %d with %d samples has evidence %+v", rank, i, len(raw), p)
			}
		}
	}
}

// What is done to one step shows in its evidence, is named for that step and for no other, and a collection there is a violation of the document.
func TestCauseIsNamedForItsStep(t *testing.T) {
	const at = 30 // forward
	for _, c := range []struct {
		name      string
		trouble   func()
		cause     string
		violation string
	}{
		{"collector", runtime.GC, "the Go collector ran 1 times", "collector_cycles: the Go collector ran inside a timed step"},
		{"CPU", func() { evidencetest.StealCPU(t, 30) }, "the CPU went to other threads ", ""},
	} {
		outcomes, _ := runAll(t, 1, watched(t.TempDir(), func(_ int, cfg *Config, f *fake) {
			cfg.Samples.DecodeKVTokens = 8
			f.before = func(context.Context, *gpu.Step) error {
				if f.session.forward.count == at {
					c.trouble()
				}
				return nil
			}
		}))
		o := outcomes[0]
		if o.err != nil {
			t.Fatal(o.err)
		}
		named := false
		for _, cause := range artifact.Causes(o.session.cfg.History.Points) {
			// Trouble brings more trouble in its step; pages are new in the first steps of a process.
			if cause.ForwardIndex != at && !strings.Contains(cause.Text, "pages") {
				t.Errorf("%s: named for forward %d: %s", c.name, cause.ForwardIndex, cause.Text)
			}
			named = named || strings.HasPrefix(cause.Text, c.cause) && cause.ForwardIndex == at
		}
		if !named {
			t.Errorf("%s: not named for forward %d", c.name, at)
		}
		o.doc.FPMRun = o.session.cfg.History
		path := filepath.Join(t.TempDir(), "benchmark.json")
		if err := artifact.WriteFile(path, o.doc); err != nil {
			t.Fatal(err)
		}
		violations := artifact.CheckFiles([]string{path})[0].Violations
		if c.violation == "" && len(violations) > 0 || c.violation != "" && (len(violations) != 1 || !strings.Contains(violations[0].String(), c.violation)) {
			t.Errorf("%s: violations %v, want %q", c.name, violations, c.violation)
		}
	}
}

// The evidence of points that were measured before a kill stays with them.
func TestEvidenceSurvives(t *testing.T) {
	dir := t.TempDir()
	runAll(t, 2, watched(dir, killAfter(1, 14)))
	before := journals(t, dir, 2)
	outcomes, _ := runAll(t, 2, watched(dir, resume))
	checked(t, outcomes, before)
	for rank, o := range outcomes {
		points := o.session.cfg.History.Points
		if len(points) != len(o.doc.Results) {
			t.Fatalf("rank %d: evidence of %d points, %d results", rank, len(points), len(o.doc.Results))
		}
		for i, p := range shortest(before) {
			if before[rank].Points[i].Evidence == nil || jsonOf(t, points[i]) != jsonOf(t, before[rank].Points[i].Evidence) || p.Group.BenchmarkID != points[i].BenchmarkID {
				t.Errorf("rank %d: evidence of measurement %d changed", rank, i)
			}
		}
	}
}

// Without host evidence there is none.
func TestMinimalEvidence(t *testing.T) {
	outcomes, _ := runAll(t, 1, into(t.TempDir(), nil))
	if points := outcomes[0].session.cfg.History.Points; outcomes[0].err != nil || len(points) > 0 {
		t.Errorf("evidence of %d points (%v)", len(points), outcomes[0].err)
	}
}

// In turn, points 1, 4, 5, 8 and so on have it: pairs of points with and without, in both orders.
func TestEvidenceInTurn(t *testing.T) {
	outcomes, _ := runAll(t, 1, watched(t.TempDir(), func(_ int, c *Config, _ *fake) { c.EvidenceInTurn = true }))
	checked(t, outcomes, nil)
	with := map[int]bool{}
	for _, p := range outcomes[0].session.cfg.History.Points {
		with[p.BenchmarkID] = true
	}
	for id := 1; id <= len(outcomes[0].doc.Results); id++ {
		if want := id%4 <= 1; with[id] != want {
			t.Errorf("point %d: evidence %v, want %v", id, with[id], want)
		}
	}
}
