package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// newDocument is the rank document before anything was measured: every list present and empty.
func (s *Session) newDocument() artifact.Rank {
	rank := s.id.dpRank
	engine := s.cfg.Engine
	if engine.Parallel != nil {
		parallel := *engine.Parallel
		parallel.DataParallelRank = &rank
		engine.Parallel = &parallel
	}
	config := s.cfg.config()
	config.OutputPath = artifact.RankPath(config.OutputPath, rank)
	prompts := "salted_random"
	if s.content.Mode() == artifact.ContentZeros {
		prompts = "zeros"
	}
	return artifact.Rank{
		DP:                artifact.DP{Rank: rank, Size: s.leaders.Size()},
		Synchronization:   artifact.Synchronization{Enabled: s.leaders.Size() > 1},
		Config:            config,
		MeasurementPolicy: artifact.Policy{Decode: "steady_state_second_step", Prefill: "single_step"},
		SyntheticPrompts:  artifact.SyntheticPrompts{Mode: prompts, VocabSize: s.cfg.Vocab},
		RecurrentState:    artifact.RecurrentState{Initialization: "unchanged"},
		Protocol:          s.cfg.protocol(),
		Ledger:            artifact.Ledger{Status: "recorded", Records: []artifact.LedgerRecord{}},
		KVWarm:            s.kvWarm(),
		Engine:            &engine,
		Results:           []artifact.Result{},
		Groups:            []artifact.Group{},
		Skipped:           []artifact.Skipped{},
		MissingPhases:     []string{},
		FPMRun:            s.cfg.Own,
	}
}

// kvWarm says whether decode points read real KV, and else why not.
func (s *Session) kvWarm() *artifact.KVWarm {
	w := &artifact.KVWarm{Enabled: s.cfg.KVWarmup, Stages: []artifact.KVStage{}, GiantKVThreshold: s.cfg.GiantKVThreshold, GiantKVRepeats: s.cfg.GiantKVRepeats}
	reason, eligible := "flag_off", false
	if s.cfg.KVWarmup {
		reason = s.cfg.KVSkipReason
	}
	if reason == "" {
		eligible = true
	} else {
		w.SkipReason = &reason
	}
	w.WarmEligible = &eligible
	if s.cfg.Text != nil {
		w.Dataset = &s.cfg.Text.Source
	}
	return w
}

func (s *Session) runLimits() artifact.RunLimits {
	return artifact.RunLimits{
		MaxNumScheduledTokens: s.cfg.MaxBatchedTokens, MaxNumRunningReqs: s.cfg.MaxSeqs, MaxModelLen: s.cfg.MaxModelLen,
		BlockSize: s.cfg.BlockSize, NumGPUBlocks: s.cfg.Blocks, ConfiguredMaxBatchSize: s.cfg.MaxSeqs,
		FeasibleMaxBatchSize: s.limits.LargestDecodeBatch(),
	}
}

func (s *Session) runGraph() artifact.RunGraph {
	g := artifact.RunGraph{
		Mode: s.cfg.Graph.Mode, PrefillMode: string(s.cfg.Graph.PrefillMode()), DecodeMode: string(s.cfg.Graph.DecodeMode()),
		Captures: append([]int{}, s.cfg.Graph.Sizes...), PrefillSizes: append([]int{}, s.limits.PrefillGraph.Captures...),
		DecodeSizes: append([]int{}, s.limits.DecodeGraph.Captures...),
	}
	if n := len(g.Captures); n > 0 {
		g.MaxCapture = &g.Captures[n-1]
	}
	return g
}

// graphOf is the planned dispatch of one kind of step; without a mode there are no captures.
func graphOf(mode gpu.GraphMode, sizes []int) artifact.Graph {
	if mode == gpu.GraphNone {
		return artifact.Graph{Mode: string(mode)}
	}
	return artifact.Graph{Mode: string(mode), Captures: slices.Clone(sizes)}
}

func digestOf(v any) (string, error) {
	text, err := artifact.Canonical(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
