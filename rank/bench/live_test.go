package bench

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fpmrun/fpmrun/artifact"
)

// The live stream gets every raw record of the rank's own document, in order; nothing of warm-ups and replicas. No step runs meanwhile.
func TestLiveRecords(t *testing.T) {
	const ranks = 2
	var mu sync.Mutex
	told, steps := make([][]artifact.FPM, ranks), make([][]int, ranks)
	outcomes, _ := runAll(t, ranks, func(rank int, c *Config, f *fake) {
		c.Live = func(point []artifact.FPM) {
			mu.Lock()
			defer mu.Unlock()
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, r := range point {
				told[rank], steps[rank] = append(told[rank], r), append(steps[rank], len(f.steps))
			}
			if len(f.flight) > 0 {
				t.Errorf("rank %d: %d steps are in flight", rank, len(f.flight))
			}
		}
	})
	for rank, o := range outcomes {
		if o.err != nil {
			t.Fatal(o.err)
		}
		var want []artifact.FPM
		for _, result := range o.doc.Results {
			want = append(want, result.FPMs[0].Measurement.Raw...)
		}
		if diff := cmp.Diff(want, told[rank]); diff != "" || len(want) == 0 {
			t.Errorf("rank %d: %d records: %s", rank, len(want), diff)
		}
		for i, r := range told[rank] {
			if r.Sample.ForwardIndex >= steps[rank][i] {
				t.Errorf("rank %d: the record of forward %d came behind %d steps", rank, r.Sample.ForwardIndex, steps[rank][i])
			}
		}
	}
}
