package artifact

import (
	"fmt"
	"strings"
)

// RawSample is one raw sample of one rank at one point with everything that is known about it, as a row of a table. The names in the tags are the
// columns', which stay; new ones are added at the end. Nil is not recorded.
type RawSample struct {
	RunID           string   `parquet:"run_id"`
	DPRank          int64    `parquet:"dp_rank"`
	BenchmarkID     int64    `parquet:"benchmark_id"`
	PointKey        string   `parquet:"point_key"`
	PointNth        int64    `parquet:"point_nth"` // of several points of one coordinate, from 0
	PointType       string   `parquet:"point_type"`
	BatchSize       int64    `parquet:"batch_size"`
	NewTokens       int64    `parquet:"new_tokens"` // computed by the step: prefill tokens, or one per decode request
	KVTokens        int64    `parquet:"kv_tokens"`
	SampleReasons   string   `parquet:"sample_reasons"` // separated by commas
	SampleIndex     *int64   `parquet:"sample_index,optional"`
	ForwardIndex    *int64   `parquet:"forward_index,optional"`
	WallTime        float64  `parquet:"wall_time_seconds"`
	Basis           *string  `parquet:"timing_basis,optional"`
	Start           *float64 `parquet:"start_monotonic_seconds,optional"` // of the rank's own clock
	End             *float64 `parquet:"end_monotonic_seconds,optional"`
	Used            bool     `parquet:"used"` // the retained time is made of it
	Method          *string  `parquet:"method,optional"`
	Retained        float64  `parquet:"retained_wall_time_seconds"`
	Group           float64  `parquet:"group_wall_time_seconds"` // the slowest rank's retained time
	RuntimeMode     *string  `parquet:"runtime_mode,optional"`
	Unpadded        *int64   `parquet:"unpadded_tokens,optional"`
	Padded          *int64   `parquet:"padded_tokens,optional"`
	KVSeedRegime    *string  `parquet:"kv_seed_regime,optional"`
	PointsBefore    *int64   `parquet:"completed_points_before,optional"`
	WarmupsBefore   *int64   `parquet:"warmup_records_before,optional"`
	PromptsSHA256   *string  `parquet:"prompts_sha256,optional"`
	CollectorCycles *int64   `parquet:"collector_cycles,optional"`
	MinorFaults     *int64   `parquet:"minor_page_faults,optional"`
	MajorFaults     *int64   `parquet:"major_page_faults,optional"`
	Voluntary       *int64   `parquet:"voluntary_context_switches,optional"`
	Involuntary     *int64   `parquet:"involuntary_context_switches,optional"`
	CPUTime         *float64 `parquet:"cpu_seconds,optional"`
	LowestSM        *int64   `parquet:"lowest_sm_mhz,optional"` // of the rank's GPUs before and after the point
}

// RawSamples visits every raw sample of a rank or merged document, by group, rank and sample; of a record without evidence, the record itself. An error
// of visit ends the walk.
func (d *Document) RawSamples(visit func(*RawSample) error) error {
	if kind := d.Type(); kind != "rank" && kind != "merged" {
		return fmt.Errorf("artifact: %q is no rank or merged document (%s)", d.Path, kind)
	}
	run, _ := d.head["run_id"].(string)
	hosts, _, err := d.hostEvidence()
	if err != nil {
		return err
	}
	places, steps := map[int]evidenceAt{}, map[int]map[int]*StepEvidence{}
	for rank, points := range hosts {
		places[rank], steps[rank] = pointPlaces(points), map[int]*StepEvidence{}
		for i := range points {
			for j := range points[i].Steps {
				steps[rank][points[i].Steps[j].ForwardIndex] = &points[i].Steps[j]
			}
		}
	}
	seen := map[string]int64{}
	for i := range d.groups {
		g, err := d.group(i)
		if err != nil {
			return err
		}
		key, err := g.Point.Key()
		if err != nil {
			return err
		}
		p := &g.Point
		row := RawSample{RunID: run, BenchmarkID: int64(g.BenchmarkID), PointKey: key, PointNth: seen[key], PointType: p.PointType, BatchSize: int64(p.BatchSize),
			NewTokens: int64(p.TotalPrefillTokens), KVTokens: int64(p.TotalKVReadTokens), SampleReasons: strings.Join(p.SampleReasons, ","), Group: float64(g.WallTime)}
		if p.PointType == Decode {
			row.NewTokens = row.BatchSize
		}
		seen[key]++
		for _, r := range g.RankResults {
			for f := range r.FPMs {
				if err := row.visit(&r.FPMs[f], r.DPRank, places[r.DPRank][g.BenchmarkID], steps[r.DPRank], visit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// visit visits the samples of one record; s holds what they share.
func (s RawSample) visit(f *FPM, rank int, place *PointEvidence, steps map[int]*StepEvidence, visit func(*RawSample) error) error {
	s.DPRank, s.Retained, s.WallTime, s.Used = int64(rank), float64(f.WallTime), float64(f.WallTime), true
	if clocks, ok := clocksOf(place); ok {
		for _, mhz := range clocks.SM {
			if s.LowestSM == nil || int64(mhz) < *s.LowestSM {
				s.LowestSM = integer(mhz)
			}
		}
	}
	e := f.Measurement
	if e == nil {
		return visit(&s)
	}
	s.Method, s.KVSeedRegime, s.PromptsSHA256 = &e.Estimate.Method, &e.Preparation.KVSeedRegime, e.Prompts.SHA256
	s.PointsBefore = integer(e.Preparation.CompletedPointsBefore)
	if n := e.Preparation.WarmupRecordsBefore; n != nil {
		s.WarmupsBefore = integer(*n)
	}
	used := map[int]bool{}
	for _, i := range e.Estimate.Indices {
		used[i] = true
	}
	for i := range e.Raw {
		row, raw := s, &e.Raw[i]
		row.WallTime, row.Used = float64(raw.WallTime), used[i]
		if b := raw.Sample; b != nil {
			row.SampleIndex, row.ForwardIndex, row.Basis = integer(b.SampleIndex), integer(b.ForwardIndex), &b.Timing.Basis
			row.Start, row.End = (*float64)(b.Timing.Start), (*float64)(&b.Timing.End)
			row.RuntimeMode = b.Cudagraph.RuntimeMode
			if b.Cudagraph.Unpadded != nil && b.Cudagraph.Padded != nil {
				row.Unpadded, row.Padded = integer(*b.Cudagraph.Unpadded), integer(*b.Cudagraph.Padded)
			}
			if step := steps[b.ForwardIndex]; step != nil {
				row.CollectorCycles, row.MinorFaults, row.MajorFaults = integer(step.CollectorCycles), integer(step.MinorFaults), integer(step.MajorFaults)
				row.Voluntary, row.Involuntary, row.CPUTime = integer(step.VoluntarySwitches), integer(step.InvoluntarySwitches), (*float64)(&step.CPUTime)
			}
		}
		if err := visit(&row); err != nil {
			return err
		}
	}
	return nil
}

func integer(n int) *int64 {
	v := int64(n)
	return &v
}
