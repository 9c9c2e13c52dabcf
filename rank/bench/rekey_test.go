package bench

import (
	"errors"
	"sync"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

// A repeated decode point over synthetic KV that reads a token less per request than it declares is kept at what was measured: its key is
// that of the measured coordinate in every rank's record, its prompts are the declared one's.
func TestOffByBatch(t *testing.T) {
	for _, c := range []struct {
		name    string
		repeats int
		short   []int // KV tokens by which each rank's declared point exceeds what it reads
		kept    bool
	}{
		{"repeated, both ranks", 3, []int{2, 2}, true},
		{"repeated, one token only", 3, []int{1, 1}, false},
		{"not repeated", 1, []int{2, 2}, false},
		{"as declared", 3, []int{0, 0}, true},
	} {
		comms := world(t, 2)
		sessions, errs := make([]*Session, 2), make([]error, 2)
		prompts := make([]string, 2)
		var wg sync.WaitGroup
		for rank, comm := range comms {
			cfg := settings(t)
			cfg.Mode, cfg.GiantKVThreshold, cfg.GiantKVRepeats = artifact.Decode, 0, c.repeats
			cfg.Manifest = manifest(t, `{"schema_version":1,"prefill":[],"decode":[{"batch_size":2,"total_kv_read_tokens":60}]}`)
			s, err := New(cfg, &fake{}, comm)
			if err != nil {
				t.Fatal(err)
			}
			sessions[rank] = s
			wg.Go(func() {
				errs[rank] = func() error {
					if err := errors.Join(s.agreeCapacity(t.Context()), s.planGrid()); err != nil {
						return err
					}
					point := s.plan.Points[len(s.plan.Points)-1]
					point.SampleReasons = []string{}
					p, _, err := s.prepareDecode(t.Context(), point)
					if err != nil {
						return err
					}
					defer p.release()
					p.point.TotalKVReadTokens += c.short[rank] // what the point declared
					evidence, err := artifact.RecordPrompts(p.batch.prompts)
					if err != nil {
						return err
					}
					prompts[rank] = *evidence.SHA256
					results, err := s.steps(t.Context(), p)
					if err != nil {
						return err
					}
					return s.conclude(p, entry{}, results)
				}()
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for rank, s := range sessions {
			if (len(s.doc.Results) == 1) != c.kept {
				t.Errorf("%s: rank %d: %d results, skipped %v", c.name, rank, len(s.doc.Results), s.doc.Skipped)
				continue
			}
			if !c.kept {
				if s.doc.Skipped[0].Reason != "measured_decode_context_mismatch" {
					t.Errorf("%s: rank %d: skipped for %s", c.name, rank, s.doc.Skipped[0].Reason)
				}
				continue
			}
			row, group := s.doc.Results[0], s.doc.Groups[0]
			key, err := row.Point.Key()
			if err != nil {
				t.Fatal(err)
			}
			if row.Point.TotalKVReadTokens != 60 || row.Point.Has(artifact.ReasonOffByBatch) != (c.short[0] > 0) {
				t.Errorf("%s: rank %d: recorded %+v", c.name, rank, row.Point)
			}
			for other, r := range group.RankResults {
				if m := r.FPMs[0].Measurement; m.PointKey != key || *m.Prompts.SHA256 != prompts[other] || len(m.Raw) != c.repeats+1 {
					t.Errorf("%s: rank %d: record of rank %d has key %s, want %s", c.name, rank, other, m.PointKey, key)
				}
			}
			if row.FPMs[0].Measurement.PointKey != key {
				t.Errorf("%s: rank %d: the local result has another key", c.name, rank)
			}
		}
	}
}
