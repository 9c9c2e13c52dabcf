package bench

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// sentences is a text of n conversations of 40 ids each, all of them below 200.
type sentences int

func (n sentences) Conversations() int { return int(n) }
func (n sentences) IDs(i int) []uint32 {
	ids := make([]uint32, 40)
	for k := range ids {
		ids[k] = uint32(1 + (i*7+k*(i%5+1))%199)
	}
	return ids
}

func textOf(n int) *Text {
	return &Text{IDs: sentences(n), Source: artifact.TextSource{Path: "text.json", SHA256: strings.Repeat("a", 64), CollectionPool: artifact.EvenConversations, Conversations: n}}
}

// onText makes settings eligible for decode over real KV.
func onText(c *Config) {
	c.Mode, c.KVSkipReason, c.ExpertParallel, c.Text = artifact.Decode, "", true, textOf(30)
}

// memoryOf replays an engine's steps and returns what each block of the pool holds, and fails the test when a decode row reads a position that
// no step wrote, or that holds anything but the chain of its slot.
func memoryOf(t *testing.T, s *Session, steps []gpu.Step) (shared map[int32]bool) {
	t.Helper()
	size := s.limits.BlockSize
	held, readers := map[int32][]uint32{}, map[int32]map[int]bool{}
	for n, step := range steps {
		decode := len(step.Rows) > 0 && step.Rows[0].New() == 1 && step.Rows[0].Computed > 0 && (step.Rows[0].Tokens == nil || n+1 < len(steps) && len(steps[n+1].Rows) > 0 && steps[n+1].Rows[0].Tokens == nil)
		for _, row := range step.Rows {
			if decode && row.Tokens != nil { // the admission step: everything before it must be the chain
				want, err := s.content.KVChain(row.Slot, row.Computed+1)
				if err != nil {
					t.Fatal(err)
				}
				for at := range row.Computed {
					block := row.Blocks[at/size]
					if got := held[block]; len(got) <= at%size || got[at%size] != want[at] {
						t.Fatalf("step %d: slot %d reads position %d from block %d, which holds %v there, want %d", n, row.Slot, at, block, got, want[at])
					}
					if readers[block] == nil {
						readers[block] = map[int]bool{}
					}
					readers[block][n] = true
				}
				if row.Tokens[0] != want[row.Computed] {
					t.Fatalf("step %d: slot %d computes id %d, want %d of its chain", n, row.Slot, row.Tokens[0], want[row.Computed])
				}
			}
			for k := range row.New() {
				at := row.Computed + k
				block := row.Blocks[at/size]
				id := uint32(0)
				if row.Tokens != nil {
					id = row.Tokens[k]
				}
				kept := held[block]
				if at%size < len(kept) {
					kept = kept[:at%size]
				}
				held[block] = append(slices.Clone(kept), id)
			}
		}
	}
	shared = map[int32]bool{}
	for block, points := range readers {
		shared[block] = len(points) > 1
	}
	return shared
}

const chainPoints = `{"schema_version":1,"prefill":[],"decode":[{"batch_size":2,"total_kv_read_tokens":40},{"batch_size":4,"total_kv_read_tokens":200},
	{"batch_size":2,"total_kv_read_tokens":180},{"batch_size":4,"total_kv_read_tokens":9},{"batch_size":1,"total_kv_read_tokens":126},{"batch_size":4,"total_kv_read_tokens":64}]}`

// Decode over real KV: one fleet of chains for each batch size, borrowed by its points, in the order of the format; every key and value that a point
// reads was computed from its slot's chain.
func TestRealKV(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		outcomes, fakes := runAll(t, n, func(_ int, c *Config, _ *fake) {
			onText(c)
			c.Manifest = manifest(t, chainPoints)
		})
		if _, err := artifact.Merge(documents(t, outcomes), "benchmark_merged.json"); err != nil {
			t.Fatal(err)
		}
		for rank, o := range outcomes {
			var order []string
			for _, row := range o.doc.Results {
				order = append(order, fmt.Sprintf("%dx%d %s", row.Point.BatchSize, row.Point.TotalKVReadTokens, row.KVSeedRegime))
				m := row.FPMs[0].Measurement
				real := row.KVSeedRegime == artifact.RegimeRealKV
				if row.Point.Has(artifact.ReasonRealKV) != real || row.Point.Has(artifact.ReasonFakeFallback) == real || m.Preparation.KVSeedRegime != row.KVSeedRegime {
					t.Errorf("rank %d: %s has reasons %v", rank, order[len(order)-1], row.Point.SampleReasons)
				}
				if want := map[bool]string{true: artifact.UpperMedian, false: artifact.LastStep}[real]; m.Estimate.Method != want || real && (m.ExpectedSamples != 4 || len(m.Raw) != 4) {
					t.Errorf("rank %d: %s is reduced by %s of %d", rank, order[len(order)-1], m.Estimate.Method, m.ExpectedSamples)
				}
				if !real {
					continue
				}
				for slot, request := range m.Prompts.Requests { // the chain's first ids, hashed
					ids, err := o.session.content.KVChain(slot, request.NumTokens)
					if err != nil || artifact.HashPrompt(slot, ids) != request {
						t.Errorf("rank %d: %s: slot %d is not the beginning of its chain (%v)", rank, order[len(order)-1], slot, err)
					}
				}
			}
			want := []string{"4x200 real_kv", "4x64 real_kv", "4x9 real_kv", "2x180 real_kv", "2x40 real_kv", "1x126 fake_fallback"}
			if !slices.Equal(order, want) {
				t.Errorf("rank %d: %v, want %v", rank, order, want)
			}
			w := o.doc.KVWarm
			stages := []artifact.KVStage{{Batch: 4, Depth: 54}, {Batch: 2, Depth: 94}}
			if diff := cmp.Diff(stages, w.Stages, cmpopts.IgnoreFields(artifact.KVStage{}, "BuildSeconds")); diff != "" {
				t.Errorf("rank %d: stages (-want +got):\n%s", rank, diff)
			}
			if !w.Enabled || !*w.WarmEligible || w.SkipReason != nil || w.PointsRealKV != 5 || w.PointsFakeFallback != 1 || *w.Dataset != textOf(30).Source {
				t.Errorf("rank %d: kvwarm %+v", rank, w)
			}
			if free, usable := o.session.cache.Free(), o.session.cache.Usable(); free != usable {
				t.Errorf("rank %d: %d of %d blocks are free at the end", rank, free, usable)
			}
			several := 0
			for _, many := range memoryOf(t, o.session, realSteps(fakes[rank].steps)) {
				if many {
					several++
				}
			}
			if several < 4 {
				t.Errorf("rank %d: %d blocks are read by more than one point, want at least a block of each of four chains", rank, several)
			}
		}
		if n > 1 && outcomes[0].doc.Results[0].FPMs[0].Measurement.Prompts.Requests[0] == outcomes[1].doc.Results[0].FPMs[0].Measurement.Prompts.Requests[0] {
			t.Error("two ranks have the same chain")
		}
	}
}

// realSteps leaves out what runs before the first chain is made and the last point, which runs over synthetic KV.
func realSteps(steps []gpu.Step) []gpu.Step {
	first := slices.IndexFunc(steps, func(s gpu.Step) bool { return len(s.Rows) == 1 && len(s.Rows[0].Tokens) == 54 })
	return steps[first : len(steps)-2]
}

// One rank's pool is full when the first fleet is made: its batch size runs over synthetic KV on every rank, the others as planned.
func TestRealKVFallsBackTogether(t *testing.T) {
	const ranks = 3
	outcomes, _ := runAllWith(t, ranks, func(_ int, c *Config, _ *fake) {
		onText(c)
		c.WarmupIterations, c.Manifest = 0, manifest(t, chainPoints)
	}, func(rank int, s *Session) {
		if rank != 1 {
			return
		}
		// The pool lacks blocks that the plan counts on, until the rank has said that it falls back.
		hog := s.cache.Open(make([]uint32, 1), "hog")
		if err := hog.Grow(50 * 16); err != nil {
			t.Error(err)
		}
		s.cfg.Logger = slog.New(warned{slog.DiscardHandler, hog.Release})
	})
	for rank, o := range outcomes {
		if o.err != nil {
			t.Fatalf("rank %d: %v", rank, o.err)
		}
		var regimes []string
		for _, row := range o.doc.Results {
			regimes = append(regimes, row.KVSeedRegime)
		}
		want := []string{"fake_fallback", "fake_fallback", "fake_fallback", "real_kv", "real_kv", "fake_fallback"}
		if !slices.Equal(regimes, want) {
			t.Errorf("rank %d: %v, want %v", rank, regimes, want)
		}
		first := artifact.KVStage{Batch: 4, Failed: true, GroupFallback: true}
		if rank == 1 {
			first = artifact.KVStage{Batch: 4, Failed: true, PoolShortfall: 3}
		}
		stages := []artifact.KVStage{first, {Batch: 2, Depth: 94}}
		if diff := cmp.Diff(stages, o.doc.KVWarm.Stages, cmpopts.IgnoreFields(artifact.KVStage{}, "BuildSeconds")); diff != "" {
			t.Errorf("rank %d: stages (-want +got):\n%s", rank, diff)
		}
		if o.doc.KVWarm.PointsRealKV != 2 || o.doc.KVWarm.PointsFakeFallback != 4 {
			t.Errorf("rank %d: %+v", rank, o.doc.KVWarm)
		}
	}
	if _, err := artifact.Merge(documents(t, outcomes), "m.json"); err != nil {
		t.Error(err)
	}
}

// warned calls a function when the rank says that it falls back.
type warned struct {
	slog.Handler
	call func()
}

func (w warned) Enabled(context.Context, slog.Level) bool { return true }
func (w warned) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "run over synthetic KV") {
		w.call()
	}
	return nil
}

// alone is a session whose plan is made, for what a run hardly ever meets.
func alone(t *testing.T) *Session {
	t.Helper()
	c := settings(t)
	onText(&c)
	c.Manifest = manifest(t, chainPoints)
	s, err := New(c, &fake{}, world(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	s.deadline = time.Now().Add(time.Minute)
	if err := s.agreeCapacity(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.planGrid(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Chains that are no longer in the cache when a point borrows them are counted, and the batch size falls back.
func TestChainsVanish(t *testing.T) {
	s := alone(t)
	if stage, err := s.stageFleet(t.Context(), 4); err != nil || stage.Failed {
		t.Fatal(stage, err)
	}
	s.warm.fleet.held.release()
	if err := s.cache.Reset(); err != nil {
		t.Fatal(err)
	}
	point := artifact.Point{PointType: artifact.Decode, BatchSize: 4, TotalKVReadTokens: 200, SampleReasons: []string{}}
	p, reason, err := s.prepareDecode(t.Context(), point)
	if err != nil || reason != "" || p.regime != artifact.RegimeFakeFallback || !p.point.Has(artifact.ReasonFakeFallback) {
		t.Errorf("regime %s, reason %q, error %v", p.regime, reason, err)
	}
	want := []artifact.KVStage{{Batch: 4, Failed: true, Vanished: 4}}
	if diff := cmp.Diff(want, s.doc.KVWarm.Stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	p.release()
	if s.cache.Free() != s.cache.Usable() {
		t.Errorf("%d of %d blocks are free", s.cache.Free(), s.cache.Usable())
	}
}

// When the run's time is over no chains are made any more.
func TestNoChainsAfterTheDeadline(t *testing.T) {
	s := alone(t)
	s.deadline = time.Now().Add(-time.Second)
	stage, err := s.stageFleet(t.Context(), 4)
	if want := (artifact.KVStage{Batch: 4, Failed: true, SoftTimeout: true}); err != nil || stage != want || s.warm.fleet != nil {
		t.Errorf("stage %+v (%v), want %+v", stage, err, want)
	}
}

// A rank that cannot run over real KV makes all run over synthetic KV, and says so on those that could.
func TestPeerIsIneligible(t *testing.T) {
	outcomes, _ := runAll(t, 2, func(rank int, c *Config, _ *fake) {
		onText(c)
		c.Manifest = manifest(t, chainPoints)
		if rank == 1 {
			c.KVSkipReason = "content_too_shallow: test"
		}
	})
	for rank, want := range []string{"peer_ineligible", "content_too_shallow: test"} {
		o := outcomes[rank]
		if o.err != nil {
			t.Fatal(o.err)
		}
		if w := o.doc.KVWarm; *w.WarmEligible || w.SkipReason == nil || *w.SkipReason != want || o.doc.Results[0].KVSeedRegime != "skip:"+want {
			t.Errorf("rank %d: %+v, regime %s, want %s", rank, w, o.doc.Results[0].KVSeedRegime, want)
		}
	}
}

// A tail is computed in steps that hold no more tokens than a step may, and no request twice.
func TestTails(t *testing.T) {
	for _, most := range []int{3, 5, 16, 64} {
		s := alone(t)
		if _, err := s.stageFleet(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		s.limits.MaxTokens = most
		p := &prepared{point: artifact.Point{PointType: artifact.Decode, BatchSize: 4}}
		injected := []int{31, 30, 16, 5}
		if stage, err := s.borrow(t.Context(), p, injected); err != nil || stage.Failed {
			t.Fatal(stage, err)
		}
		done := []int{16, 16, 16, 0}
		for _, step := range s.tails(p.batch, injected) {
			seen := map[int]bool{}
			if step.Tokens() > most || step.Tokens() == 0 {
				t.Errorf("a step of %d tokens, at most %d are one", step.Tokens(), most)
			}
			for _, row := range step.Rows {
				if seen[row.Slot] || row.Computed != done[row.Slot] {
					t.Errorf("at most %d: slot %d goes on at %d, want %d, twice %v", most, row.Slot, row.Computed, done[row.Slot], seen[row.Slot])
				}
				seen[row.Slot] = true
				done[row.Slot] += row.New()
			}
		}
		if !slices.Equal(done, injected) {
			t.Errorf("at most %d: computed %v, want %v", most, done, injected)
		}
	}
}

// What decode points stand on, and what the document says of it, for each way in which a run comes to it.
func TestDecodeRegimes(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(c *Config)
		regime   string
		eligible bool
		reason   string // of the document; "" for null
	}{
		{"warm-up off", func(c *Config) { c.KVWarmup = false }, "legacy", false, "flag_off"},
		{"warm-up off, though it could", func(c *Config) { onText(c); c.KVWarmup = false }, "legacy", false, "flag_off"},
		{"not eligible", func(c *Config) { c.KVSkipReason = "prefix_caching_disabled" }, "skip:prefix_caching_disabled", false, "prefix_caching_disabled"},
		{"eligible", onText, "real_kv", true, ""},
	} {
		outcomes, _ := runAll(t, 1, func(_ int, cfg *Config, _ *fake) {
			c.change(cfg)
			cfg.Mode = artifact.Decode
			cfg.Manifest = manifest(t, `{"schema_version":1,"prefill":[],"decode":[{"batch_size":2,"total_kv_read_tokens":64}]}`)
		})
		if outcomes[0].err != nil {
			t.Fatal(outcomes[0].err)
		}
		d := outcomes[0].doc
		w := d.KVWarm
		if d.Results[0].KVSeedRegime != c.regime || *w.WarmEligible != c.eligible || (w.SkipReason == nil) != (c.reason == "") || w.SkipReason != nil && *w.SkipReason != c.reason {
			t.Errorf("%s: regime %s, kvwarm %+v", c.name, d.Results[0].KVSeedRegime, w)
		}
	}
}
