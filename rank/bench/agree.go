package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
)

// Agreement between the DP leaders. Each function is one exchange that all of them enter; a difference is an
// error on every rank, with the rank, what differs and both values in it.

// agreeCapacity takes the smallest of every rank's limits, provided that the ranks have the same invariants.
func (s *Session) agreeCapacity(ctx context.Context) error {
	invariants, err := s.invariants()
	if err != nil {
		return err
	}
	own := s.cfg.capacity(s.cache)
	own.Invariants, err = digestOf(invariants)
	if err != nil {
		return err
	}
	text, err := artifact.Canonical(invariants)
	if err != nil {
		return err
	}
	engine, err := s.engineIdentity()
	if err != nil {
		return err
	}
	all, err := collective.AllGather(ctx, s.leaders, capacityMessage{own, text, engine})
	if err != nil {
		return fmt.Errorf("bench: agree on the capacity: %w", err)
	}
	common, first := own, -1
	for rank, m := range all {
		if m.Capacity.Invariants != all[0].Capacity.Invariants {
			return s.refused(ctx, fmt.Errorf("bench: DP ranks are configured differently: %w", difference(all[0].Invariants, m.Invariants, 0, rank)))
		}
		switch {
		case len(m.Engine) == 0:
		case first < 0:
			first = rank
		case string(m.Engine) != string(all[first].Engine):
			return s.refused(ctx, fmt.Errorf("bench: DP ranks are configured differently: %w", difference(all[first].Engine, m.Engine, first, rank)))
		}
		c := m.Capacity
		common.MaxModelLen = min(common.MaxModelLen, c.MaxModelLen)
		common.MaxTokens = min(common.MaxTokens, c.MaxTokens)
		common.MaxRunning = min(common.MaxRunning, c.MaxRunning)
		common.Blocks = min(common.Blocks, c.Blocks)
		common.BlocksWatermark = min(common.BlocksWatermark, c.BlocksWatermark)
		common.KVWarmEligible = common.KVWarmEligible && c.KVWarmEligible
	}
	if len(all) > 1 {
		s.doc.Capacity.Common = &common
	}
	s.limits = s.cfg.limits(common)
	s.agreedWarm(common.KVWarmEligible)
	return nil
}

// refused returns an error that every rank finds in what all of them have told, once all have: one that leaves earlier breaks the exchange that the
// others are in.
func (s *Session) refused(ctx context.Context, err error) error {
	_ = s.leaders.Barrier(ctx) // the error is the reason to leave, whether or not the others are still there
	return err
}

// capacityMessage is what a rank tells the others before the grid is planned.
type capacityMessage struct {
	Capacity   artifact.Capacity
	Invariants []byte
	Engine     []byte // empty when the engine block could not be captured whole
}

// engineIdentity is the engine block that all ranks must share; nil for one that could not be captured.
func (s *Session) engineIdentity() ([]byte, error) {
	if s.cfg.Engine.CaptureError != "" {
		s.cfg.Logger.Warn("the engine block is incomplete", "capture_error", s.cfg.Engine.CaptureError)
		return nil, nil
	}
	return artifact.Canonical(map[string]any{"engine": s.cfg.Engine})
}

// invariants is everything that has to be the same on all ranks, by name.
func (s *Session) invariants() (map[string]any, error) {
	config := s.cfg.config()
	config.OutputPath = ""
	points := ""
	if m := s.cfg.Manifest; m != nil {
		var err error
		if points, err = artifact.GridDigest(append(slices.Clone(m.Prefill), m.Decode...)); err != nil {
			return nil, err
		}
	}
	return map[string]any{
		"config": config, "points": points, "block_size": s.cfg.BlockSize, "prefix_caching": s.cfg.PrefixCaching,
		"cudagraph_mode": s.cfg.Graph.Mode, "cudagraph_capture_sizes": s.cfg.Graph.Sizes,
		"prefill_real_seed": s.cfg.PrefillRealSeed, "measurement_protocol": s.cfg.protocol(), "text": s.cfg.textIdentity(),
	}, nil
}

// difference names the first setting in which a rank differs from another one.
func difference(reference, other []byte, from, rank int) error {
	var a, b map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(reference, &a), json.Unmarshal(other, &b)); err != nil {
		return err
	}
	path := ""
	for {
		key := ""
		for _, k := range slices.Sorted(maps.Keys(a)) {
			if string(a[k]) != string(b[k]) {
				key = k
				break
			}
		}
		if key == "" {
			return fmt.Errorf("rank %d: %s differs from rank %d", rank, path, from)
		}
		path += "." + key
		var x, y map[string]json.RawMessage
		if json.Unmarshal(a[key], &x) != nil || json.Unmarshal(b[key], &y) != nil || x == nil || y == nil {
			return fmt.Errorf("%s is %s on rank %d and %s on rank %d", path[1:], a[key], from, b[key], rank)
		}
		a, b = x, y
	}
}

// agreeGrid checks that all ranks planned the same queue.
func (s *Session) agreeGrid(ctx context.Context) error {
	type message struct {
		Digest   string
		Expected int
		Missing  []string
	}
	all, err := collective.AllGather(ctx, s.leaders, message{s.plan.Digest, s.plan.Expected, s.plan.MissingPhases})
	if err != nil {
		return fmt.Errorf("bench: agree on the grid: %w", err)
	}
	for rank, m := range all {
		if m.Digest != all[0].Digest || m.Expected != all[0].Expected || !slices.Equal(m.Missing, all[0].Missing) {
			return s.refused(ctx, fmt.Errorf("bench: rank %d planned %d points (grid %s), rank 0 planned %d (grid %s)", rank, m.Expected, m.Digest, all[0].Expected, all[0].Digest))
		}
	}
	return nil
}

// agreeStop is the OR of all ranks' wish to stop at a point boundary.
func (s *Session) agreeStop(ctx context.Context) (bool, error) {
	wish := []int32{0}
	if s.wantsStop() {
		wish[0] = 1
	}
	all, err := collective.AllReduce(ctx, s.leaders, wish, collective.Max)
	if err != nil {
		return false, fmt.Errorf("bench: agree on the point boundary: %w", err)
	}
	return all[0] != 0, nil
}

// ready is what a rank says when a point is prepared.
type ready struct {
	PointDigest string
	Scheduled   artifact.Scheduled // of the first step
	Steps       int                // of the point
	Skip        string             // why this rank cannot run the point
}

// agreeReady tells every rank's state of preparation, and checks that all are about to run the same thing. It returns
// the reason to skip the point on all ranks, or "".
func (s *Session) agreeReady(ctx context.Context, own ready) (string, error) {
	all, err := collective.AllGather(ctx, s.leaders, own)
	if err != nil {
		return "", fmt.Errorf("bench: agree on the point start: %w", err)
	}
	for rank, r := range all {
		if r.PointDigest != all[0].PointDigest {
			return "", s.refused(ctx, fmt.Errorf("bench: rank %d is at point %s, rank 0 at %s", rank, r.PointDigest, all[0].PointDigest))
		}
	}
	for rank, r := range all {
		if r.Skip != "" {
			s.cfg.Logger.Warn("point skipped", "reason", r.Skip, "rank", rank)
			return r.Skip, nil
		}
	}
	for rank, r := range all {
		if x, y := totals(r.Scheduled), totals(all[0].Scheduled); x != y {
			return "", s.refused(ctx, fmt.Errorf("bench: rank %d scheduled %+v, rank 0 %+v", rank, x, y))
		}
		if r.Steps != all[0].Steps {
			return "", s.refused(ctx, fmt.Errorf("bench: rank %d is to run %d steps, rank 0 %d", rank, r.Steps, all[0].Steps))
		}
	}
	return "", nil
}

// agreeChains reports whether the chains that a decode point stands on are there on all ranks.
func (s *Session) agreeChains(ctx context.Context, ok bool) (bool, error) {
	own := []int32{0}
	if ok {
		own[0] = 1
	}
	all, err := collective.AllReduce(ctx, s.leaders, own, collective.Min)
	if err != nil {
		return false, fmt.Errorf("bench: agree on the decode chains: %w", err)
	}
	return all[0] == 1, nil
}

// totals are the counts that must be equal on all ranks.
func totals(s artifact.Scheduled) [5]int {
	return [5]int{s.NumPrefillRequests, s.SumPrefillTokens, s.SumPrefillKVTokens, s.NumDecodeRequests, s.SumDecodeKVTokens}
}

// exchange gives every rank every rank's record of the point, evidence included.
func (s *Session) exchange(ctx context.Context, own artifact.FPM) ([]artifact.RankResult, error) {
	text, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("bench: encode the result: %w", err)
	}
	all, err := collective.AllGatherBytes(ctx, s.leaders, text)
	if err != nil {
		return nil, fmt.Errorf("bench: exchange the result: %w", err)
	}
	results := make([]artifact.RankResult, len(all))
	for rank, raw := range all {
		results[rank] = artifact.RankResult{DPRank: rank, FPMs: make([]artifact.FPM, 1)}
		if err := json.Unmarshal(raw, &results[rank].FPMs[0]); err != nil {
			return nil, fmt.Errorf("bench: result of rank %d: %w", rank, err)
		}
	}
	return results, nil
}
