package bench

import (
	"context"
	"slices"

	"github.com/fpmrun/fpmrun/artifact"
)

// prepareDecode injects a decode point's requests at one token less than their contexts: over prefixes of real text where the run is
// eligible and the chains are there on all ranks, else over the KV that the pool happens to hold. The second result is the reason to
// skip the point, or "".
func (s *Session) prepareDecode(ctx context.Context, point artifact.Point) (*prepared, string, error) {
	_, contexts, err := point.Lengths(s.limits.BlockSize)
	if err != nil {
		return nil, "", err
	}
	injected, lengths := make([]int, len(contexts)), make([]int, len(contexts))
	total := point.BatchSize
	for i, c := range contexts {
		injected[i] = max(1, c-1)
		lengths[i] = injected[i] + 1
		total += injected[i]
	}
	p := &prepared{point: point, regime: s.decodeRegime()}
	onText, err := s.prepareRealKV(ctx, p, injected)
	if err != nil {
		return p, "", err
	}
	if total != point.TotalKVReadTokens {
		p.point.TotalKVReadTokens = total
		if !point.Replica() {
			p.point.Stamp(artifact.ReasonContextClamped)
		}
	}
	if onText {
		return p, "", nil
	}
	if s.warm.eligible && !point.Replica() {
		p.point.Stamp(artifact.ReasonFakeFallback)
	}
	// The shape is that of the injected contexts, so that points recorded at one coordinate have the same prompts.
	shape, err := s.shape(artifact.Decode, slices.Repeat([]int{1}, len(injected)), injected)
	if err != nil {
		return nil, "", err
	}
	prompts, err := s.content.Prompts(artifact.PurposeDecode, shape, lengths)
	if err != nil {
		return nil, "", err
	}
	steady := s.steadySteps(point.TotalKVReadTokens, lengths)
	b, err := open(s.cache, prompts, s.freshSalts(len(prompts)), steady)
	if err != nil {
		s.cfg.Logger.Warn("requests do not fit the cache", "benchmark_id", point.BenchmarkID, "error", err)
		return p, "decode_injection_failed", nil
	}
	b.commit()
	b.decodeSteps(injected, steady+1)
	p.batch, p.expect = b, steady+1
	return p, "", nil
}

// steadySteps is the number of steady steps of a decode point: one, or the configured repeats when it reads much KV
// and length and blocks allow it. It depends on the agreed limits only, so that all ranks take as many.
func (s *Session) steadySteps(kvTokens int, lengths []int) int {
	if !s.cfg.KVWarmup || kvTokens < s.cfg.GiantKVThreshold {
		return 1
	}
	n := min(s.cfg.GiantKVRepeats, max(1, s.limits.MaxModelLen-1-slices.Max(lengths)))
	blocks := 0
	for _, l := range lengths {
		blocks += (l + n + s.limits.BlockSize - 1) / s.limits.BlockSize
	}
	if blocks > s.limits.BlocksWatermark {
		return 1
	}
	return n
}

// decodeRegime says what the KV of decode points is that do not run over real KV.
func (s *Session) decodeRegime() string {
	switch {
	case !s.cfg.KVWarmup:
		return artifact.RegimeLegacy
	case s.warm.eligible:
		return artifact.RegimeFakeFallback
	case s.cfg.KVSkipReason == "":
		return artifact.RegimeSkip + peerIneligible
	}
	return artifact.RegimeSkip + s.cfg.KVSkipReason
}
