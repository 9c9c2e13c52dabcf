package bench

import (
	"context"

	"github.com/fpmrun/fpmrun/artifact"
)

// prepared is a point that is ready to run.
type prepared struct {
	point  artifact.Point // as it will be recorded
	regime string
	batch  *batch
	seeds  *batch // keeps registered prefixes from being evicted; may be nil
	expect int    // internal samples
}

func (p *prepared) release() {
	for _, b := range []*batch{p.batch, p.seeds} {
		if b != nil {
			b.release()
		}
	}
}

// preparePrefill opens a prefill point's requests. Prefixes are registered in the cache without having been
// computed, unless real seeding was asked for. The second result is the reason to skip the point, or "".
func (s *Session) preparePrefill(ctx context.Context, point artifact.Point) (*prepared, string, error) {
	fresh, kv, err := point.Lengths(s.limits.BlockSize)
	if err != nil {
		return nil, "", err
	}
	shape, err := s.shape(artifact.Prefill, fresh, kv)
	if err != nil {
		return nil, "", err
	}
	if point.TotalKVReadTokens > 0 && s.cfg.PrefillRealSeed {
		return s.prepareRealPrefix(ctx, point, shape, fresh, kv)
	}
	p := &prepared{point: point, regime: artifact.RegimeNotApplicable, expect: 1}
	prompts, err := s.content.Prompts(artifact.PurposePrefill, shape, sum(fresh, kv))
	if err != nil {
		return nil, "", err
	}
	salts := s.freshSalts(len(prompts))
	if point.TotalKVReadTokens > 0 {
		p.regime = artifact.RegimeFakePrefix
		if !point.Replica() {
			p.point.Stamp(artifact.ReasonFakePrefix)
		}
		seeds, full := open(s.cache, cut(prompts, kv), salts, 0)
		if full != nil {
			s.cfg.Logger.Warn("prefixes do not fit the cache", "benchmark_id", point.BenchmarkID, "error", full)
			return p, "fake_prefix_cache_allocation_failed", nil
		}
		p.seeds = seeds
		p.seeds.commit()
	}
	return s.inject(p, prompts, salts, kv, "prefill_injection_failed", "fake_prefix_cache_validation_failed")
}

// inject opens the measured requests, checks that each hits exactly its prefix, and builds the step.
func (s *Session) inject(p *prepared, prompts [][]uint32, salts []string, kv []int, failed, missed string) (*prepared, string, error) {
	b, err := open(s.cache, prompts, salts, 0)
	if err != nil {
		s.cfg.Logger.Warn("requests do not fit the cache", "benchmark_id", p.point.BenchmarkID, "error", err)
		return p, failed, nil
	}
	p.batch = b
	for i, sequence := range b.sequences {
		if sequence.Cached() != kv[i] {
			s.cfg.Logger.Warn("prefix hit has the wrong length", "benchmark_id", p.point.BenchmarkID, "slot", i, "want", kv[i], "got", sequence.Cached())
			return p, missed, nil
		}
	}
	b.prefill()
	return p, "", nil
}

// sum adds lengths slot by slot.
func sum(a, b []int) []int {
	total := make([]int, len(a))
	for i := range a {
		total[i] = a[i] + b[i]
	}
	return total
}

// cut returns the first n[i] ids of each prompt.
func cut(prompts [][]uint32, n []int) [][]uint32 {
	prefixes := make([][]uint32, len(prompts))
	for i, prompt := range prompts {
		prefixes[i] = prompt[:n[i]]
	}
	return prefixes
}
