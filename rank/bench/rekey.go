package bench

import (
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
)

// offByBatch reports whether a repeated decode point over synthetic KV was measured at exactly one KV token less per request than it
// declares, on every rank. Such a point is kept at the coordinate that was measured.
func offByBatch(p *prepared, results []artifact.RankResult) bool {
	if p.point.PointType != artifact.Decode || p.regime == artifact.RegimeRealKV || p.expect <= 2 || p.point.Replica() {
		return false
	}
	for _, r := range results {
		got := r.FPMs[0].Scheduled
		if got.NumDecodeRequests != p.point.BatchSize || got.SumDecodeKVTokens != p.point.TotalKVReadTokens-p.point.BatchSize {
			return false
		}
	}
	return true
}

// rekey records a point at the coordinate that was measured: every rank keyed its evidence by the declared one before the exchange, so
// the key is replaced in the records of all of them. Prompts, hashes and raw samples stay those of the declared point.
func rekey(p *prepared, results []artifact.RankResult) error {
	p.point.TotalKVReadTokens -= p.point.BatchSize
	p.point.Stamp(artifact.ReasonOffByBatch)
	key, err := p.point.Key()
	if err != nil {
		return err
	}
	for rank, r := range results {
		evidence := r.FPMs[0].Measurement
		if evidence == nil {
			return fmt.Errorf("bench: point %d: rank %d sent no evidence to key anew", p.point.BenchmarkID, rank)
		}
		evidence.PointKey = key
	}
	return nil
}
