package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu/kv"
)

// peerIneligible is why a rank that could does not run over real KV: another one cannot.
const peerIneligible = "peer_ineligible"

// warm is the state of decode over real KV.
type warm struct {
	eligible bool         // all ranks are
	failed   map[int]bool // batch sizes whose chains could not be had
	texts    [][]uint32   // the longest text that each slot's chain was drawn to
	fleet    *fleet       // what is parked; nil: nothing
}

// fleet is the chains of one batch size, computed and held in the cache. Sequence i holds the first depth tokens of chain i.
type fleet struct {
	size, depth int
	chains      [][]uint32 // (size, depth + 1)
	held        *batch
}

// release lets the parked chains go; their blocks stay cached until others need the room.
func (w *warm) release() {
	if w.fleet != nil {
		w.fleet.held.release()
		w.fleet = nil
	}
}

// count adds a measured point to the block of the document.
func (w *warm) count(doc *artifact.KVWarm, regime string) {
	switch regime {
	case artifact.RegimeRealKV:
		doc.PointsRealKV++
	case artifact.RegimeFakeFallback:
		doc.PointsFakeFallback++
	}
}

// agreedWarm takes over what the ranks agreed on.
func (s *Session) agreedWarm(eligible bool) {
	s.warm = warm{eligible: eligible, failed: map[int]bool{}}
	if s.cfg.kvEligible() && !eligible {
		no, reason := false, peerIneligible
		s.doc.KVWarm.WarmEligible, s.doc.KVWarm.SkipReason = &no, &reason
	}
}

// chainSalt is the namespace of a slot's chain in the prefix cache.
func chainSalt(slot int) string { return "kv-chain-slot" + strconv.Itoa(slot) }

// chainText is the first n ids of a slot's chain.
func (s *Session) chainText(slot, n int) ([]uint32, error) {
	for len(s.warm.texts) <= slot {
		s.warm.texts = append(s.warm.texts, nil)
	}
	if len(s.warm.texts[slot]) < n {
		ids, err := s.content.KVChain(slot, n)
		if err != nil {
			return nil, fmt.Errorf("bench: decode chain of slot %d: %w", slot, err)
		}
		s.warm.texts[slot] = ids
	}
	return s.warm.texts[slot][:n], nil
}

// fleetDepth is how deep the chains of a batch size are made: enough for the deepest point that they can cover, its output and its
// repeats.
func (s *Session) fleetDepth(size int) int {
	depth := 0
	for i := range s.plan.Points {
		p := &s.plan.Points[i]
		if p.PointType == artifact.Decode && p.BatchSize == size && !p.Replica() {
			if need := s.limits.ChainNeed(p, s.cfg.GiantKVRepeats); need > 0 {
				depth = max(depth, need+2+s.cfg.GiantKVRepeats)
			}
		}
	}
	return min(depth, s.limits.ChainDepth(size, s.cfg.GiantKVRepeats))
}

// stageFleet computes the chains of a batch size and parks them. The stage says how it went; failed ones leave nothing parked. An error
// ends the run.
func (s *Session) stageFleet(ctx context.Context, size int) (artifact.KVStage, error) {
	s.warm.release()
	stage := artifact.KVStage{Batch: size, Failed: true}
	if time.Now().After(s.deadline) {
		stage.SoftTimeout = true
		return stage, nil
	}
	begin := time.Now()
	f := &fleet{size: size, depth: s.fleetDepth(size), chains: make([][]uint32, size)}
	prefixes, salts := make([][]uint32, size), make([]string, size)
	for slot := range size {
		ids, err := s.chainText(slot, f.depth+1)
		if err != nil {
			return stage, err
		}
		f.chains[slot], prefixes[slot], salts[slot] = ids, ids[:f.depth], chainSalt(slot)
	}
	held, err := open(s.cache, prefixes, salts, 0)
	if full, ok := errors.AsType[*kv.NoSpaceError](err); ok {
		stage.PoolShortfall = full.Needed - full.Free
		return stage, nil
	}
	if err != nil {
		return stage, fmt.Errorf("bench: decode chains of batch %d: %w", size, err)
	}
	if err := s.lockstep.work(ctx, s.chunks(held)); err != nil {
		held.release()
		return stage, fmt.Errorf("bench: decode chains of batch %d: %w", size, err)
	}
	held.commit()
	f.held, s.warm.fleet = held, f
	seconds := artifact.Float(time.Since(begin).Seconds())
	return artifact.KVStage{Batch: size, Depth: f.depth, BuildSeconds: &seconds}, nil
}
