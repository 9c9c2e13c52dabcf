package bench

import (
	"context"
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
)

// measure takes one queued point through preparation, agreement, its steps and the exchange of results, and
// appends what came of it to the document. A replica runs the same way and leaves a ledger record only.
func (s *Session) measure(ctx context.Context, point artifact.Point) error {
	var record entry
	if point.Replica() {
		record = s.begin(artifact.WarmupEagerShape, point)
	}
	p, reason, err := s.prepare(ctx, point)
	if err != nil {
		return err
	}
	defer p.release()
	if err := s.lockstep.settle(ctx); err != nil {
		return fmt.Errorf("bench: point %d: %w", point.BenchmarkID, err)
	}
	own := ready{Skip: reason}
	if own.PointDigest, err = point.Digest(); err != nil {
		return err
	}
	if reason == "" {
		own.Scheduled, own.Steps = scheduled(&p.batch.steps[0], p.batch.decode), len(p.batch.steps)
	}
	s.observer.forget()
	if reason == "" && !point.Replica() {
		s.observer.before(ctx, point.BenchmarkID, own.Steps)
	}
	if reason, err = s.agreeReady(ctx, own); err != nil {
		return err
	}
	if reason != "" {
		return s.skipped(p, record, reason, -1)
	}
	first := s.forward.count
	results, err := s.steps(ctx, p)
	if err != nil {
		return err
	}
	s.journal.seen = s.observer.after(ctx, first)
	return s.conclude(p, record, results)
}

// conclude comes to the group's verdict on a point that ran, the same on every rank, and keeps the result.
func (s *Session) conclude(p *prepared, record entry, results []artifact.RankResult) error {
	if offByBatch(p, results) {
		if err := rekey(p, results); err != nil {
			return err
		}
	}
	reason, rank := s.validate(&p.point, results)
	switch {
	case p.point.Replica():
		record.observed(p.batch.steps, p.batch.decode)
		record.validated(reason, rank)
		return nil
	case reason != "":
		return s.skipped(p, record, reason, rank)
	}
	s.save(p, results)
	return nil
}

// prepare builds a point's requests and steps.
func (s *Session) prepare(ctx context.Context, point artifact.Point) (*prepared, string, error) {
	if point.PointType == artifact.Prefill {
		return s.preparePrefill(ctx, point)
	}
	return s.prepareDecode(ctx, point)
}

// steps runs the prepared steps between the group's start signal and their last output and exchanges the result.
func (s *Session) steps(ctx context.Context, p *prepared) ([]artifact.RankResult, error) {
	steps := p.batch.steps
	outs := outputs(steps)
	first := s.forward.count
	start, err := s.forward.run(ctx, steps, outs, func() (int64, error) { return s.startSignal(ctx) })
	if err != nil {
		return nil, fmt.Errorf("bench: point %d: %w", p.point.BenchmarkID, err)
	}
	if finite, err := s.engine.Finite(); err != nil {
		return nil, fmt.Errorf("bench: point %d: %w", p.point.BenchmarkID, err)
	} else if !finite {
		return nil, fmt.Errorf("bench: point %d: the logits are not all finite numbers", p.point.BenchmarkID)
	}
	if p.regime != artifact.RegimeRealPrefix && p.regime != artifact.RegimeRealKV { // whose chains hold the prefixes alone: a tail must not be hit later
		p.batch.commit()
	}
	s.keepTiming(&p.point, outs)
	raw := records(&p.point, s.id, first, p.batch, outs, start)
	retained, estimate := artifact.Reduce(raw, p.expect)
	if retained.Measurement, err = s.evidence(p, raw, estimate); err != nil {
		return nil, err
	}
	return s.exchange(ctx, retained)
}

// evidence is what the retained record carries about how it came to be.
func (s *Session) evidence(p *prepared, raw []artifact.FPM, estimate artifact.Estimate) (*artifact.Evidence, error) {
	key, err := p.point.Key()
	if err != nil {
		return nil, err
	}
	prompts, err := artifact.RecordPrompts(p.batch.prompts)
	if err != nil {
		s.cfg.Logger.Warn("no prompt evidence", "benchmark_id", p.point.BenchmarkID, "error", err)
	}
	before := len(s.doc.Ledger.Records)
	return &artifact.Evidence{
		SchemaVersion: 1, PointKey: key, DPRank: s.id.dpRank, Prompts: prompts,
		Preparation:     artifact.Preparation{GridDigest: s.plan.Digest, CompletedPointsBefore: len(s.doc.Results), KVSeedRegime: p.regime, WarmupRecordsBefore: &before},
		ExpectedSamples: p.expect, Raw: raw, Estimate: estimate,
	}, nil
}

// validate compares every rank's record with the coordinate. All ranks come to the same verdict: the reason to skip
// the point, or "", and the first rank that gave it.
func (s *Session) validate(point *artifact.Point, results []artifact.RankResult) (string, int) {
	for rank, r := range results {
		got := r.FPMs[0].Scheduled
		switch {
		case point.PointType == artifact.Prefill && got.NumPrefillRequests != point.BatchSize,
			point.PointType == artifact.Decode && got.NumDecodeRequests != point.BatchSize:
			return "measured_batch_size_mismatch", rank
		case got.SumPrefillTokens != point.TotalPrefillTokens:
			return "measured_prefill_tokens_mismatch", rank
		case point.PointType == artifact.Prefill && got.SumPrefillKVTokens != point.TotalKVReadTokens:
			return "measured_kv_read_mismatch", rank
		case point.PointType == artifact.Decode && got.SumDecodeKVTokens != point.TotalKVReadTokens:
			return "measured_decode_context_mismatch", rank
		}
	}
	return "", -1
}

// skipped notes a point that could not be measured. An explicit point ends the run: the operator asked for it.
func (s *Session) skipped(p *prepared, record entry, reason string, rank int) error {
	if record.ledger != nil {
		record.validated(reason, rank)
		return nil
	}
	if p.point.Has(artifact.ReasonExplicit) {
		return fmt.Errorf("bench: explicit point %d (%s, batch_size %d, total_prefill_tokens %d, total_kv_read_tokens %d) could not be measured: %s",
			p.point.BenchmarkID, p.point.PointType, p.point.BatchSize, p.point.TotalPrefillTokens, p.point.TotalKVReadTokens, reason)
	}
	s.doc.Skipped = append(s.doc.Skipped, artifact.Skipped{Point: p.point, KVSeedRegime: p.regime, Reason: reason})
	s.report(p.point, 0, reason)
	return nil
}

// save appends a measured point.
func (s *Session) save(p *prepared, results []artifact.RankResult) {
	group := artifact.Group{BenchmarkID: p.point.BenchmarkID, Point: p.point, Complete: true, RankResults: results}
	for rank, r := range results {
		group.ExpectedDPRanks = append(group.ExpectedDPRanks, rank)
		group.WallTime = max(group.WallTime, r.FPMs[0].WallTime)
	}
	s.doc.Groups = append(s.doc.Groups, group)
	s.warm.count(s.doc.KVWarm, p.regime)
	s.doc.Results = append(s.doc.Results, artifact.Result{Point: p.point, KVSeedRegime: p.regime, FPMs: results[s.id.dpRank].FPMs})
	s.report(p.point, float64(group.WallTime), "")
}
