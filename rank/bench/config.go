package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// Config is one run's settings, the same on every rank but for OutputPath and WorkerID.
type Config struct {
	Mode              string             // prefill, decode or agg
	Manifest          *artifact.Manifest // explicit points; nil generates the grid
	Samples           artifact.Samples   // bounds of a generated grid
	Reverse           bool               // measure the points of each phase in reverse order
	CollectImbalanced bool               // keep explicit points whose requests differ in length
	WarmupIterations  int                // tokens of the global warm-up request; 0 skips it
	OutputPath        string             // rank 0's file; other DP ranks add "_dp<rank>"
	Timeout           time.Duration      // soft limit, checked between points; above 0

	ContentSeed      string // selects token ids
	PromptContent    string // artifact.ContentRandom, ContentPool or ContentChain; "" is ContentRandom
	PoolTag          string // selects other windows of the pool
	Text             *Text  // real text for prompts and decode chains; nil: none
	PrefillRealSeed  bool   // compute the cached prefixes of prefill points instead of only registering them
	KVWarmup         bool   // decode over real KV where the model is eligible
	KVSkipReason     string // why this run is not eligible for real KV; "" when it is
	GiantKVThreshold int    // repeat decode points that read at least as many KV tokens
	GiantKVRepeats   int    // steady steps of a repeated point, at least 1

	MaxModelLen      int // tokens in one sequence
	MaxBatchedTokens int // new tokens in one step
	MaxSeqs          int // requests in one step
	BlockSize        int // tokens per KV block
	Blocks           int // KV blocks, the null block included
	PrefixCaching    bool
	ExpertParallel   bool // the engines of all DP ranks share one set of experts, so they step together
	Graph            gpu.GraphConfig
	Vocab            int // vocabulary of the model

	WorkerID string          // worker_id of the records
	Engine   artifact.Engine // provenance, without parallel.data_parallel_rank
	Own      any             // the project's own evidence of this rank, for the member "fpmrun"

	GraphMetrics *GraphMetrics // whether records say what steps were dispatched as; nil: they do

	HostEvidence   bool // count what the process did over each measured step, and read the host around each point
	EvidenceInTurn bool // only for the first and last of each four points, in the order of their ids: to see in one run what it costs

	// GPUs reads the devices of the engine, between points, with host evidence. nil: there are none to read.
	GPUs func(ctx context.Context) ([]artifact.GPUReading, error)

	Roofline *Roofline // measure what the device can do at most, before, between and after the points. nil: not wanted

	Prepared func() // is called when the engine is ready for all points, before the warm-up. nil: not called

	Timing bool // keep the device's own time of each step; the run is then diagnostic

	Resume  bool              // go on with the journals of an earlier run in the folder of OutputPath
	Launch  artifact.Launch   // this process; the run id comes with Run
	History *artifact.History // is filled with which process measured what; nil: nobody wants it

	Logger   *slog.Logger
	Progress func(Progress) // called after each real point on the leader of DP rank 0; nil: not called

	Live func(point []artifact.FPM) // is told the raw records of this rank when their point is measured, between two points, which wait for it. nil: not called
}

// Progress is how far a run is.
type Progress struct {
	Done, Total int
	Earlier     int // of those done the ones that an earlier process measured
	Point       artifact.Point
	WallTime    float64 // seconds, the slowest rank's
	Skipped     string  // reason, when the point was skipped
}

// Validate reports every setting that cannot work, all at once.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Mode == artifact.Prefill || c.Mode == artifact.Decode || c.Mode == "agg", "mode %q is not prefill, decode or agg", c.Mode)
	check(c.WarmupIterations >= 0, "warmup-iterations %d is below 0", c.WarmupIterations)
	check(c.Timeout > 0, "timeout %v is not above 0", c.Timeout)
	check(c.GiantKVRepeats >= 1, "giant-kv-repeats %d is below 1", c.GiantKVRepeats)
	check(c.GiantKVThreshold >= 0, "giant-kv-threshold %d is below 0", c.GiantKVThreshold)
	for _, n := range []struct {
		name       string
		value, low int
	}{
		{"max-model-len", c.MaxModelLen, 3}, {"max-num-batched-tokens", c.MaxBatchedTokens, 1}, {"max-num-seqs", c.MaxSeqs, 1},
		{"block-size", c.BlockSize, 1}, {"kv-blocks", c.Blocks, 2},
		{"prefill-max-new-token-samples", c.Samples.PrefillNewTokens, 2}, {"prefill-max-kv-read-token-samples", c.Samples.PrefillKVTokens, 2},
		{"prefix-max-batch-size-samples", c.Samples.PrefillBatches, 1}, {"decode-max-kv-read-token-samples", c.Samples.DecodeKVTokens, 2},
		{"decode-max-batch-size-samples", c.Samples.DecodeBatches, 2},
	} {
		check(n.value >= n.low, "%s %d is below %d", n.name, n.value, n.low)
	}
	check(c.Text != nil || c.PromptContent == "" || c.PromptContent == artifact.ContentRandom, "prefill-content %s needs a text: give a token pool, or a tokenizer and a data set", c.PromptContent)
	check(c.Text != nil || !c.kvEligible(), "decode over real KV needs a text: give a token pool, or a tokenizer and a data set")
	if err := c.Graph.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// config is the document's copy of the settings.
func (c *Config) config() artifact.Config {
	return artifact.Config{
		Mode: c.Mode, WarmupIterations: c.WarmupIterations, OutputPath: c.OutputPath, Timeout: artifact.Float(c.Timeout.Seconds()),
		PrefillNewTokenSamples: c.Samples.PrefillNewTokens, PrefillKVReadSamples: c.Samples.PrefillKVTokens,
		DecodeKVReadSamples: c.Samples.DecodeKVTokens, DecodeBatchSizeSamples: c.Samples.DecodeBatches,
		PrefixBatchSizeSamples: c.Samples.PrefillBatches, CollectImbalanced: c.CollectImbalanced,
	}
}

// protocol describes how the run measures.
func (c *Config) protocol() artifact.Protocol {
	return artifact.NewProtocol(&artifact.Content{Seed: c.ContentSeed, Vocab: c.Vocab, Kind: c.PromptContent, PoolTag: c.PoolTag}, artifact.ProtocolPreparation{
		WarmupIterations: c.WarmupIterations, PrefillRealSeed: c.PrefillRealSeed, DecodeRealKVWarmup: c.KVWarmup,
		GiantKVThreshold: c.GiantKVThreshold, GiantKVRepeats: c.GiantKVRepeats,
	})
}
