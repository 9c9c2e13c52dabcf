package bench

import (
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// What a step computes is counted from its rows: prefill by whole prompt lengths, decode by what is read, also in the admission step.
func TestScheduledCounts(t *testing.T) {
	prefill := gpu.Step{Rows: []gpu.Row{{Tokens: []uint32{1, 2, 3}, Computed: 16}, {Tokens: []uint32{1}, Computed: 0}}}
	if got, want := scheduled(&prefill, false), (artifact.Scheduled{NumPrefillRequests: 2, SumPrefillTokens: 4, SumPrefillKVTokens: 16, VarPrefillLength: 81}); got != want {
		t.Errorf("prefill: %+v, want %+v", got, want)
	}
	for name, tokens := range map[string][]uint32{"admission": {7}, "steady": nil} {
		step := gpu.Step{Rows: []gpu.Row{{Tokens: tokens, Computed: 10}, {Tokens: tokens, Computed: 14}}}
		if got, want := scheduled(&step, true), (artifact.Scheduled{NumDecodeRequests: 2, SumDecodeKVTokens: 24, VarDecodeKVTokens: 4}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// The prompts that are hashed are those that were injected: new and KV tokens of a prefill, one more than what is injected for a decode point.
func TestPromptLengths(t *testing.T) {
	outcomes, _ := runAll(t, 1, func(_ int, c *Config, _ *fake) {
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[{"batch_size":2,"total_prefill_tokens":9,"total_kv_read_tokens":48}],
			"decode":[{"batch_size":4,"total_kv_read_tokens":10},{"batch_size":2,"total_kv_read_tokens":60}]}`)
	})
	want := [][]int{{5 + 32, 4 + 16}, {3, 3, 2, 2}, {30, 30}}
	for i, row := range outcomes[0].doc.Results {
		p := row.FPMs[0].Measurement.Prompts
		if p.Status != "recorded" || len(p.Requests) != len(want[i]) {
			t.Fatalf("point %d: %+v", i, p)
		}
		for slot, r := range p.Requests {
			if r.Slot != slot || r.NumTokens != want[i][slot] {
				t.Errorf("point %d: slot %d has %d tokens, want %d", i, r.Slot, r.NumTokens, want[i][slot])
			}
		}
	}
}

// The steady steps of a decode point over synthetic KV: repeated from the threshold on, as far as length and blocks allow, and never with the warm-up off.
func TestSteadySteps(t *testing.T) {
	for _, c := range []struct {
		name    string
		warmup  bool
		kv      int
		lengths []int
		length  int // max_model_len
		blocks  int
		want    int
	}{
		{"below the threshold", true, 99, []int{50, 50}, 128, 64, 1},
		{"at the threshold", true, 100, []int{50, 50}, 128, 64, 4},
		{"warm-up off", false, 100, []int{50, 50}, 128, 64, 1},
		{"capped by the length", true, 120, []int{120}, 124, 64, 3},
		{"never none", true, 123, []int{123}, 124, 64, 1},
		{"blocks for all repeats", true, 100, []int{60, 60}, 128, 8, 4},
		{"a block short for the last repeat", true, 100, []int{61, 61}, 128, 8, 1},
	} {
		s := &Session{cfg: Config{KVWarmup: c.warmup, GiantKVThreshold: 100, GiantKVRepeats: 4}, limits: artifact.Limits{MaxModelLen: c.length, BlockSize: 16, BlocksWatermark: c.blocks}}
		if got := s.steadySteps(c.kv, c.lengths); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// The first step of a point is timed from its start, after the group's signal; each other one from the output before.
func TestTimingBases(t *testing.T) {
	outcomes, _ := runAll(t, 2, func(_ int, c *Config, _ *fake) { c.GiantKVThreshold, c.GiantKVRepeats = 100, 3 })
	last := -1
	for _, row := range outcomes[1].doc.Results {
		m := row.FPMs[0].Measurement
		for k, raw := range m.Raw {
			timing := raw.Sample.Timing
			if want := map[bool]string{true: artifact.ScheduleToOutput, false: artifact.InterOutput}[k == 0]; timing.Basis != want || raw.WallTime != timing.End-*timing.Start {
				t.Errorf("point %d, step %d: %+v, wall time %v", row.Point.BenchmarkID, k, timing, raw.WallTime)
			}
			if k > 0 && *timing.Start != m.Raw[k-1].Sample.Timing.End {
				t.Errorf("point %d, step %d begins at %v, the one before ends at %v", row.Point.BenchmarkID, k, *timing.Start, m.Raw[k-1].Sample.Timing.End)
			}
			if raw.Sample.ForwardIndex <= last || raw.Sample.SampleIndex != k {
				t.Errorf("point %d, step %d: forward index %d after %d, sample index %d", row.Point.BenchmarkID, k, raw.Sample.ForwardIndex, last, raw.Sample.SampleIndex)
			}
			last = raw.Sample.ForwardIndex
		}
	}
	if last < 0 {
		t.Error("nothing was measured")
	}
}
