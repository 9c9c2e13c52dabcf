package bench

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
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

// A collection that is forced in one step shows in that step and in no other, and the check of the document names it.
func TestCollectionInsideAStep(t *testing.T) {
	const at = 30 // forward
	outcomes, _ := runAll(t, 1, watched(t.TempDir(), func(_ int, c *Config, f *fake) {
		c.Samples.DecodeKVTokens = 8
		f.before = func(context.Context, *gpu.Step) error {
			if f.session.forward.count == at {
				runtime.GC()
			}
			return nil
		}
	}))
	o := outcomes[0]
	if o.err != nil {
		t.Fatal(o.err)
	}
	hit := false
	for _, p := range o.session.cfg.History.Points {
		for _, step := range p.Steps {
			if want := map[bool]int{true: 1}[step.ForwardIndex == at]; step.CollectorCycles != want {
				t.Errorf("forward %d: %d collector cycles, want %d", step.ForwardIndex, step.CollectorCycles, want)
			}
			hit = hit || step.ForwardIndex == at
		}
	}
	if !hit {
		t.Fatalf("forward %d is in no measured point", at)
	}
	o.doc.FPMRun = o.session.cfg.History
	path := filepath.Join(t.TempDir(), "benchmark.json")
	if err := artifact.WriteFile(path, o.doc); err != nil {
		t.Fatal(err)
	}
	if r := artifact.CheckFiles([]string{path})[0]; len(r.Violations) != 1 || !strings.Contains(r.Violations[0].String(), "collector_cycles: the Go collector ran inside a timed step") {
		t.Errorf("violations %v", r.Violations)
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
