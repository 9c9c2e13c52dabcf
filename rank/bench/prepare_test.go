package bench

import (
	"slices"
	"testing"
)

// Before the first point the engine is made ready for the kinds of step that are measured, and for nothing else.
func TestEngineIsPreparedForEachPoint(t *testing.T) {
	outcomes, fakes := runAll(t, 2, nil)
	for rank, o := range outcomes {
		if o.err != nil {
			t.Fatal(o.err)
		}
		ran := map[kind]bool{}
		for i := range fakes[rank].steps {
			step := &fakes[rank].steps[i]
			ran[kind{step.Tokens(), len(step.Rows), step.Decode()}] = true
		}
		decodes := 0
		for _, k := range fakes[rank].prepared {
			if !ran[k] {
				t.Errorf("rank %d: prepared for %+v, which no step was", rank, k)
			}
			if k.decode {
				decodes++
			}
		}
		for _, r := range o.session.doc.Results {
			p := &r.Point
			want := kind{p.Driver(), p.BatchSize, p.PointType == "decode" || p.TotalPrefillTokens == p.BatchSize && p.TotalKVReadTokens > 0}
			if !slices.Contains(fakes[rank].prepared, want) {
				t.Errorf("rank %d: not prepared for %+v of point %d", rank, want, p.BenchmarkID)
			}
		}
		if n := len(fakes[rank].prepared); decodes == 0 || decodes == n {
			t.Errorf("rank %d: %d of %d kinds are decode steps", rank, decodes, n)
		}
	}
}
