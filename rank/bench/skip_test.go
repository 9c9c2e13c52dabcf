package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu/kv"
)

// hog takes all blocks of a session's pool but some.
func hog(t *testing.T, s *Session, left int) {
	t.Helper()
	if err := s.cache.Open(make([]uint32, 1), "hog").Grow((s.cache.Usable() - left) * s.limits.BlockSize); err != nil {
		t.Error(err)
	}
}

// uncached replaces a session's pool by one that finds no prefix.
func uncached(t *testing.T, s *Session) {
	t.Helper()
	cache, err := kv.New(kv.Config{Blocks: s.cfg.Blocks, BlockSize: s.cfg.BlockSize})
	if err != nil {
		t.Error(err)
	}
	s.cache = cache
}

// Every reason to skip a point while it is prepared: one rank of two has it, both skip the point for it, and the run goes on to the next point.
func TestSkipReasons(t *testing.T) {
	prefill := artifact.Point{PointType: artifact.Prefill, BatchSize: 2, TotalPrefillTokens: 8, TotalKVReadTokens: 64, SampleReasons: []string{}}
	plain := artifact.Point{PointType: artifact.Prefill, BatchSize: 2, TotalPrefillTokens: 8, SampleReasons: []string{}}
	decode := artifact.Point{PointType: artifact.Decode, BatchSize: 2, TotalKVReadTokens: 64, SampleReasons: []string{}}
	for _, c := range []struct {
		reason  string
		point   artifact.Point
		real    bool
		spoil   func(t *testing.T, s *Session)
		regime  string
		ledgers []string // kinds and statuses that rank 1's ledger gets
	}{
		{"fake_prefix_cache_allocation_failed", prefill, false, func(t *testing.T, s *Session) { hog(t, s, 3) }, artifact.RegimeFakePrefix, nil},
		{"fake_prefix_cache_validation_failed", prefill, false, uncached, artifact.RegimeFakePrefix, nil},
		{"prefill_injection_failed", prefill, false, func(t *testing.T, s *Session) { hog(t, s, 5) }, artifact.RegimeFakePrefix, nil},
		{"prefill_injection_failed", plain, false, func(t *testing.T, s *Session) { hog(t, s, 1) }, artifact.RegimeNotApplicable, nil},
		{"real_seed_injection_failed", prefill, true, func(t *testing.T, s *Session) { hog(t, s, 3) }, artifact.RegimeRealPrefix, []string{"real_prefix_seed failed"}},
		{"real_seed_warm_injection_failed", prefill, true, func(t *testing.T, s *Session) { hog(t, s, 5) }, artifact.RegimeRealPrefix,
			[]string{"real_prefix_seed completed", "real_prefix_shape failed"}},
		{"real_seed_cache_validation_failed", prefill, true, uncached, artifact.RegimeRealPrefix,
			[]string{"real_prefix_seed completed", "real_prefix_shape failed", "real_prefix_seed completed", "real_prefix_shape failed"}},
		{"decode_injection_failed", decode, false, func(t *testing.T, s *Session) { hog(t, s, 3) }, artifact.RegimeSkip + "dense_model_content_insensitive", nil},
	} {
		t.Run(c.reason, func(t *testing.T) {
			points := []artifact.Point{c.point, plain}
			for i := range points {
				points[i].BenchmarkID, points[i].ExpectedCudagraphMode = i+1, "NONE"
			}
			// Rank 1's pool is spoilt while point 1 is prepared and whole again for point 2.
			outcomes := runPoints(t, 2, points, c.real, func(rank int, s *Session, id int) {
				switch {
				case rank == 1 && id == 1:
					c.spoil(t, s)
				case rank == 1:
					cache, err := kv.New(kv.Config{Blocks: s.cfg.Blocks, BlockSize: s.cfg.BlockSize, PrefixCaching: true})
					if err != nil {
						t.Error(err)
					}
					s.cache = cache
				}
			})
			for rank, o := range outcomes {
				d := o.doc
				if len(d.Skipped) != 1 || d.Skipped[0].Reason != c.reason || d.Skipped[0].KVSeedRegime != c.regime || len(d.Results) != 1 {
					t.Errorf("rank %d: skipped %+v, %d results", rank, d.Skipped, len(d.Results))
				}
				d.Finish(2, false, nil)
				if d.Valid || d.Usable || d.Coverage.Skipped != 1 {
					t.Errorf("rank %d: valid %v, usable %v, %+v", rank, d.Valid, d.Usable, d.Coverage)
				}
			}
			var kinds []string
			for _, r := range outcomes[1].doc.Ledger.Records {
				kinds = append(kinds, r.Kind+" "+r.Status)
			}
			if !slices.Equal(kinds, c.ledgers) {
				t.Errorf("rank 1's ledger: %v, want %v", kinds, c.ledgers)
			}
		})
	}
}

// runPoints takes the ranks of a group through given points; before is called on each rank before each of them.
func runPoints(t *testing.T, n int, points []artifact.Point, realSeed bool, before func(rank int, s *Session, id int)) []outcome {
	t.Helper()
	comms := world(t, n)
	outcomes := make([]outcome, n)
	eachRank(t, comms, func(rank int, _ *collective.Comm) error {
		c := settings(t)
		c.PrefillRealSeed = realSeed
		s, err := New(c, &fake{}, comms[rank])
		o := &outcomes[rank]
		o.session = s
		if err != nil {
			return err
		}
		o.doc = &s.doc
		if err := s.agreeCapacity(t.Context()); err != nil {
			return err
		}
		s.plan = &artifact.Plan{Points: points, Expected: len(points), Digest: strings.Repeat("0", 64)}
		for _, p := range points {
			before(rank, s, p.BenchmarkID)
			if err := s.measure(t.Context(), p); err != nil {
				return err
			}
		}
		return nil
	})
	return outcomes
}

// What the ranks measured against what they were to: the first bad rank names the reason, on all ranks alike.
func TestMeasuredMismatch(t *testing.T) {
	prefill := artifact.Point{PointType: artifact.Prefill, BatchSize: 2, TotalPrefillTokens: 8, TotalKVReadTokens: 32}
	decode := artifact.Point{PointType: artifact.Decode, BatchSize: 2, TotalKVReadTokens: 64}
	good := func(p artifact.Point) artifact.Scheduled {
		if p.PointType == artifact.Prefill {
			return artifact.Scheduled{NumPrefillRequests: 2, SumPrefillTokens: 8, SumPrefillKVTokens: 32}
		}
		return artifact.Scheduled{NumDecodeRequests: 2, SumDecodeKVTokens: 64}
	}
	for _, c := range []struct {
		point  artifact.Point
		change func(s *artifact.Scheduled) // of ranks 1 and 2
		want   string
	}{
		{prefill, func(*artifact.Scheduled) {}, ""},
		{decode, func(*artifact.Scheduled) {}, ""},
		{prefill, func(s *artifact.Scheduled) { s.NumPrefillRequests = 1 }, "measured_batch_size_mismatch"},
		{decode, func(s *artifact.Scheduled) { s.NumDecodeRequests = 1 }, "measured_batch_size_mismatch"},
		{prefill, func(s *artifact.Scheduled) { s.SumPrefillTokens = 7 }, "measured_prefill_tokens_mismatch"},
		{decode, func(s *artifact.Scheduled) { s.SumPrefillTokens = 1 }, "measured_prefill_tokens_mismatch"},
		{prefill, func(s *artifact.Scheduled) { s.SumPrefillKVTokens = 0 }, "measured_kv_read_mismatch"},
		{decode, func(s *artifact.Scheduled) { s.SumDecodeKVTokens = 62 }, "measured_decode_context_mismatch"},
	} {
		results := make([]artifact.RankResult, 3)
		for rank := range results {
			s := good(c.point)
			if rank > 0 {
				c.change(&s)
			}
			results[rank] = artifact.RankResult{DPRank: rank, FPMs: []artifact.FPM{{Scheduled: s}}}
		}
		reason, rank := (&Session{}).validate(&c.point, results)
		if wantRank := map[bool]int{true: -1, false: 1}[c.want == ""]; reason != c.want || rank != wantRank {
			t.Errorf("%s: %q of rank %d, want %q of rank %d", c.point.PointType, reason, rank, c.want, wantRank)
		}
	}
}

// A replica that was not what it should be leaves a failed record with the group's verdict, and no skipped point.
func TestReplicaThatFailsIsKept(t *testing.T) {
	s := alone(t)
	point := artifact.Point{PointType: artifact.Decode, BatchSize: 2, TotalKVReadTokens: 64, BenchmarkID: 9, SampleReasons: []string{artifact.ReasonEagerWarmup}}
	record := s.begin(artifact.WarmupEagerShape, point)
	if err := s.skipped(&prepared{point: point}, record, "decode_injection_failed", -1); err != nil {
		t.Fatal(err)
	}
	p, _, err := s.prepareDecode(t.Context(), point)
	if err != nil {
		t.Fatal(err)
	}
	record = s.begin(artifact.WarmupEagerShape, point)
	results, err := s.steps(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	results[0].FPMs[0].Scheduled.SumDecodeKVTokens++
	if err := s.conclude(p, record, results); err != nil {
		t.Fatal(err)
	}
	p.release()
	if len(s.doc.Skipped)+len(s.doc.Results)+len(s.doc.Groups) > 0 {
		t.Errorf("skipped %v, %d results", s.doc.Skipped, len(s.doc.Results))
	}
	records := s.doc.Ledger.Records
	if len(records) != 2 {
		t.Fatalf("%d records", len(records))
	}
	for i, want := range []struct {
		reason string
		count  int
		rank   int // -1: none
	}{{"decode_injection_failed", 0, -1}, {"measured_decode_context_mismatch", 2, 0}} {
		r := records[i]
		v := r.Validation
		if r.Status != "failed" || v.Status != "failed" || v.Scope != "attention_dp_group" || *v.Reason != want.reason || r.ObservedForwardCount != want.count ||
			(v.FailedDPRank == nil) != (want.rank < 0) || r.RequestedShape.(artifact.Point).BenchmarkID != 9 {
			t.Errorf("record %d: %+v, validation %+v, want %+v", i, r, v, want)
		}
	}
	if records[1].FirstScheduled == nil || records[1].LastScheduled.SumDecodeKVTokens != 64 {
		t.Errorf("observed %+v and %+v", records[1].FirstScheduled, records[1].LastScheduled)
	}
}

// A chain that was evicted is staged once more and the point is measured; the missed shot stays in the ledger.
func TestRealPrefixIsStagedOnceMore(t *testing.T) {
	prefill := artifact.Point{PointType: artifact.Prefill, BatchSize: 2, TotalPrefillTokens: 8, TotalKVReadTokens: 64, BenchmarkID: 1, ExpectedCudagraphMode: "NONE", SampleReasons: []string{}}
	again := prefill
	again.BenchmarkID = 2
	outcomes := runPoints(t, 1, []artifact.Point{prefill, again}, true, func(_ int, s *Session, id int) {
		if id == 2 {
			if err := s.cache.Reset(); err != nil {
				t.Error(err)
			}
		}
	})
	if len(outcomes[0].doc.Results) != 2 {
		t.Fatalf("%d results", len(outcomes[0].doc.Results))
	}
	var kinds []string
	for _, r := range outcomes[0].doc.Ledger.Records {
		kinds = append(kinds, r.Kind+" "+r.Status)
	}
	want := []string{"real_prefix_seed completed", "real_prefix_shape completed", "real_prefix_shape failed", "real_prefix_seed completed", "real_prefix_shape completed"}
	if !slices.Equal(kinds, want) {
		t.Errorf("ledger %v, want %v", kinds, want)
	}
}

// Ranks that are not at the same point, or about to run something else, end the run with both values.
func TestRanksAtDifferentPoints(t *testing.T) {
	good := ready{PointDigest: "a", Scheduled: artifact.Scheduled{NumDecodeRequests: 2, SumDecodeKVTokens: 62}, Steps: 2}
	for _, c := range []struct {
		name   string
		change func(r *ready)
		want   string
	}{
		{"another point", func(r *ready) { r.PointDigest = "b" }, "rank 2 is at point b, rank 0 at a"},
		{"other tokens", func(r *ready) { r.Scheduled.SumDecodeKVTokens = 60 }, "rank 2 scheduled [0 0 0 2 60], rank 0 [0 0 0 2 62]"},
		{"other steps", func(r *ready) { r.Steps = 4 }, "rank 2 is to run 4 steps, rank 0 2"},
	} {
		comms := world(t, 3)
		errs := make([]error, 3)
		eachRank(t, comms, func(rank int, _ *collective.Comm) error {
			own := good
			if rank == 2 {
				c.change(&own)
			}
			s := &Session{leaders: comms[rank], cfg: settings(t)}
			_, errs[rank] = s.agreeReady(t.Context(), own)
			return nil
		})
		for rank, err := range errs {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: rank %d: %v, want %q", c.name, rank, err, c.want)
			}
		}
	}
	comms := world(t, 2)
	errs := make([]error, 2)
	eachRank(t, comms, func(rank int, _ *collective.Comm) error {
		s := &Session{leaders: comms[rank], plan: &artifact.Plan{Digest: strings.Repeat("ab", 1+rank), Expected: 3 + rank}}
		errs[rank] = s.agreeGrid(t.Context())
		return nil
	})
	for rank, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "rank 1 planned 4 points (grid abab), rank 0 planned 3 (grid ab)") {
			t.Errorf("another grid: rank %d: %v", rank, err)
		}
	}
}
