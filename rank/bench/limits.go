package bench

import (
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu/kv"
)

// capacity is what this rank can hold by itself.
func (c *Config) capacity(cache *kv.Manager) artifact.Capacity {
	return artifact.Capacity{
		MaxModelLen: c.MaxModelLen, MaxTokens: c.MaxBatchedTokens, MaxRunning: c.MaxSeqs,
		Blocks: cache.Usable(), BlocksWatermark: cache.Usable() - cache.Watermark(), KVWarmEligible: c.kvEligible(),
	}
}

// limits is what the points are planned with, given what all ranks can hold.
func (c *Config) limits(common artifact.Capacity) artifact.Limits {
	l := artifact.Limits{
		MaxModelLen: common.MaxModelLen, MaxTokens: common.MaxTokens, MaxRunning: common.MaxRunning, BlockSize: c.BlockSize,
		Blocks: common.Blocks, BlocksWatermark: common.BlocksWatermark, PrefixCaching: c.PrefixCaching,
		PrefillGraph: graphOf(c.Graph.PrefillMode(), c.Graph.Sizes), DecodeGraph: graphOf(c.Graph.DecodeMode(), c.Graph.Sizes),
	}
	for i, size := range l.DecodeGraph.Captures {
		if size > common.MaxRunning {
			l.DecodeGraph.Captures = l.DecodeGraph.Captures[:i]
			break
		}
	}
	return l
}

// Plan is the queue that a run with these settings would have if every rank held as much as this one. It finds points and
// a warm-up that this rank cannot hold before anything is started.
func Plan(c *Config) (*artifact.Plan, error) {
	cache, err := kv.New(kv.Config{Blocks: c.Blocks, BlockSize: c.BlockSize, PrefixCaching: c.PrefixCaching})
	if err != nil {
		return nil, err
	}
	l := c.limits(c.capacity(cache))
	if c.WarmupIterations > 0 {
		if _, err := warmupLength(&l, c.WarmupIterations); err != nil {
			return nil, err
		}
	}
	return c.plan(&l, c.kvEligible())
}

// plan makes the queue; warm says that decode points run over real KV where it can be had.
func (c *Config) plan(l *artifact.Limits, warm bool) (*artifact.Plan, error) {
	repeats := 0
	if warm {
		repeats = c.GiantKVRepeats
	}
	plan, err := artifact.NewPlan(l, artifact.Request{ChainRepeats: repeats, Reverse: c.Reverse, Mode: c.Mode, Manifest: c.Manifest, Samples: c.Samples, CollectImbalanced: c.CollectImbalanced})
	if err != nil {
		return nil, fmt.Errorf("points: %w", err)
	}
	return plan, nil
}
