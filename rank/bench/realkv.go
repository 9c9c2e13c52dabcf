package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/kv"
)

// prepareRealKV lets a decode point's requests stand on the chains of its batch size: each borrows the whole blocks of its chain's prefix
// and computes the rest, at most a block less one token, into blocks of its own, so that every key and value that the point reads comes
// from text. It reports false when the point has to run over synthetic KV, on all ranks: the run is not eligible, the chains cannot be as
// deep as the point, or they could not be had on some rank, which ends real KV for the batch size.
func (s *Session) prepareRealKV(ctx context.Context, p *prepared, injected []int) (bool, error) {
	if !s.warm.eligible || p.point.Replica() {
		return false, nil
	}
	size := p.point.BatchSize
	if s.warm.failed[size] || s.limits.ChainNeed(&p.point, s.cfg.GiantKVRepeats) == 0 {
		s.warm.release()
		return false, nil
	}
	var stage artifact.KVStage
	staged := s.warm.fleet == nil || s.warm.fleet.size != size
	if staged {
		var err error
		if stage, err = s.stageFleet(ctx, size); err != nil {
			return false, err
		}
	}
	if !stage.Failed {
		broken, err := s.borrow(ctx, p, injected)
		if err != nil {
			return false, err
		}
		if broken.Failed {
			stage = broken
		}
	}
	if err := s.lockstep.settle(ctx); err != nil {
		return false, fmt.Errorf("bench: point %d: %w", p.point.BenchmarkID, err)
	}
	all, err := s.agreeChains(ctx, !stage.Failed)
	if err != nil {
		return false, err
	}
	if !all && !stage.Failed {
		stage = artifact.KVStage{Batch: size, Failed: true, GroupFallback: true}
	}
	if staged || !all {
		s.doc.KVWarm.Stages = append(s.doc.KVWarm.Stages, stage)
	}
	if all {
		p.regime = artifact.RegimeRealKV
		p.point.Stamp(artifact.ReasonRealKV)
		return true, nil
	}
	s.cfg.Logger.Warn("decode points of this batch size run over synthetic KV", "batch_size", size, "stage", fmt.Sprintf("%+v", stage))
	p.release()
	p.batch = nil
	s.warm.failed[size] = true
	s.warm.release()
	return false, nil
}

// borrow opens the requests of a point on the parked chains. The stage says when that is not possible.
func (s *Session) borrow(ctx context.Context, p *prepared, injected []int) (artifact.KVStage, error) {
	f := s.warm.fleet
	prompts, salts := make([][]uint32, f.size), make([]string, f.size)
	longest := slices.Max(injected) + 1
	for slot := range prompts {
		prompts[slot], salts[slot] = f.chains[slot][:injected[slot]+1], chainSalt(slot)
	}
	steady := min(s.cfg.GiantKVRepeats, max(1, s.limits.MaxModelLen-1-longest))
	b, err := open(s.cache, prompts, salts, steady)
	if full, ok := errors.AsType[*kv.NoSpaceError](err); ok {
		return artifact.KVStage{Batch: f.size, Failed: true, PoolShortfall: full.Needed - full.Free}, nil
	}
	if err != nil {
		return artifact.KVStage{}, fmt.Errorf("bench: point %d: %w", p.point.BenchmarkID, err)
	}
	p.batch, p.expect = b, steady+1
	vanished := 0
	for slot, sequence := range b.sequences {
		if whole := injected[slot] / s.limits.BlockSize * s.limits.BlockSize; sequence.Cached() != whole {
			vanished++
		}
	}
	if vanished > 0 {
		return artifact.KVStage{Batch: f.size, Failed: true, Vanished: vanished}, nil
	}
	if err := s.lockstep.work(ctx, s.tails(b, injected)); err != nil {
		return artifact.KVStage{}, fmt.Errorf("bench: tails of point %d: %w", p.point.BenchmarkID, err)
	}
	b.decodeSteps(injected, steady+1)
	return artifact.KVStage{}, nil
}

// tails computes what the chains' whole blocks leave of each request, in steps of at most max_num_batched_tokens tokens.
func (s *Session) tails(b *batch, injected []int) []gpu.Step {
	var steps []gpu.Step
	var rows []gpu.Row
	tokens := 0
	flush := func() {
		if len(rows) > 0 {
			steps, rows, tokens = append(steps, gpu.Step{Rows: rows}), nil, 0
		}
	}
	for slot, prompt := range b.prompts {
		for done := b.sequences[slot].Cached(); done < injected[slot]; {
			n := min(injected[slot]-done, s.limits.MaxTokens)
			if tokens+n > s.limits.MaxTokens {
				flush()
			}
			rows = append(rows, gpu.Row{Slot: slot, Tokens: prompt[done : done+n], Computed: done, Blocks: b.sequences[slot].Blocks()})
			tokens += n
			done += n
			if n == s.limits.MaxTokens {
				flush()
			}
		}
	}
	flush()
	return steps
}
