package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

func manifest(t *testing.T, text string) *artifact.Manifest {
	t.Helper()
	m, err := artifact.ParseManifest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A coordinate without KV that stands three times in a run has the same prompts and hits nothing of what the
// earlier ones left in the cache, with real prefixes too.
func TestRepeatedCoordinateHitsNothing(t *testing.T) {
	for _, real := range []bool{false, true} {
		outcomes, _ := runAll(t, 1, func(_ int, c *Config, _ *fake) {
			c.PrefillRealSeed = real
			c.Mode = artifact.Prefill
			c.Manifest = manifest(t, `{"schema_version":3,"prefill":[
				{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0},
				{"batch_size":2,"total_prefill_tokens":40,"total_kv_read_tokens":32,"rows":[[20,0],[20,32]]},
				{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0},
				{"batch_size":2,"total_prefill_tokens":40,"total_kv_read_tokens":32,"rows":[[20,0],[20,32]]},
				{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0}],"decode":[]}`)
			c.CollectImbalanced = true
		})
		if outcomes[0].err != nil {
			t.Fatal(outcomes[0].err)
		}
		hashes := map[string]string{}
		for _, row := range outcomes[0].doc.Results {
			f := row.FPMs[0]
			if f.Scheduled.SumPrefillKVTokens != row.Point.TotalKVReadTokens || f.Scheduled.SumPrefillTokens != row.Point.TotalPrefillTokens {
				t.Errorf("real %v: point %d computed %d tokens and read %d", real, row.Point.BenchmarkID, f.Scheduled.SumPrefillTokens, f.Scheduled.SumPrefillKVTokens)
			}
			key, sum := f.Measurement.PointKey, *f.Measurement.Prompts.SHA256
			if before, ok := hashes[key]; ok && before != sum {
				t.Errorf("real %v: two prompts at one coordinate", real)
			}
			hashes[key] = sum
		}
		if len(outcomes[0].doc.Results) != 5 || len(hashes) != 2 {
			t.Errorf("real %v: %d results at %d coordinates", real, len(outcomes[0].doc.Results), len(hashes))
		}
	}
}

// Real prefixes: the first point stages its chains, a shallower one finds them deep enough, and every point has a warm
// shot of its own whose tail differs from the measured one.
func TestRealPrefix(t *testing.T) {
	outcomes, fakes := runAll(t, 1, func(_ int, c *Config, _ *fake) {
		c.PrefillRealSeed, c.Mode, c.WarmupIterations = true, artifact.Prefill, 0
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[
			{"batch_size":2,"total_prefill_tokens":8,"total_kv_read_tokens":96},
			{"batch_size":2,"total_prefill_tokens":8,"total_kv_read_tokens":32}],"decode":[]}`)
	})
	d := outcomes[0].doc
	if outcomes[0].err != nil {
		t.Fatal(outcomes[0].err)
	}
	var kinds []string
	for _, r := range d.Ledger.Records {
		kinds = append(kinds, r.Kind)
	}
	// The replica runs the whole path first; then each of the two points has its warm shot.
	want := []string{artifact.WarmupEagerShape, artifact.WarmupRealPrefix, artifact.WarmupRealShape, artifact.WarmupRealShape, artifact.WarmupRealShape}
	if !slices.Equal(kinds, want) {
		t.Errorf("ledger %v, want %v", kinds, want)
	}
	// The replica's record spans the staging and the shot before it.
	replica, seed := d.Ledger.Records[0], d.Ledger.Records[1]
	if *replica.FirstScheduled != *seed.FirstScheduled || replica.LastScheduled.SumPrefillKVTokens != 96 || replica.ObservedForwardCount != seed.ObservedForwardCount+2 {
		t.Errorf("the replica's record %+v", replica)
	}
	for _, row := range d.Results {
		if row.KVSeedRegime != artifact.RegimeRealPrefix || !row.Point.Has(artifact.ReasonRealSeed) {
			t.Errorf("point %d: regime %s, reasons %v", row.Point.BenchmarkID, row.KVSeedRegime, row.Point.SampleReasons)
		}
	}
	steps := fakes[0].steps
	warm, measured := steps[len(steps)-2].Rows[0].Tokens, steps[len(steps)-1].Rows[0].Tokens
	if slices.Equal(warm, measured) {
		t.Error("the warm shot has the measured tail")
	}
}

// Clamped contexts: four requests cannot read fewer than two tokens each.
func TestDecodeCoordinates(t *testing.T) {
	outcomes, fakes := runAll(t, 1, func(_ int, c *Config, _ *fake) {
		c.Mode = artifact.Decode
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[],"decode":[{"batch_size":4,"total_kv_read_tokens":4},
			{"batch_size":4,"total_kv_read_tokens":5},{"batch_size":4,"total_kv_read_tokens":8},{"batch_size":4,"total_kv_read_tokens":9}]}`)
	})
	if outcomes[0].err != nil {
		t.Fatal(outcomes[0].err)
	}
	var recorded []int
	clamped := ""
	for _, row := range outcomes[0].doc.Results {
		recorded = append(recorded, row.Point.TotalKVReadTokens)
		clamped += map[bool]string{true: "x", false: "."}[row.Point.Has(artifact.ReasonContextClamped)]
		if got := row.FPMs[0].Scheduled.SumDecodeKVTokens; got != row.Point.TotalKVReadTokens {
			t.Errorf("point %d reads %d, recorded as %d", row.Point.BenchmarkID, got, row.Point.TotalKVReadTokens)
		}
	}
	if !slices.Equal(recorded, []int{8, 8, 8, 9}) || clamped != "xx.." {
		t.Errorf("recorded %v, clamped %s", recorded, clamped)
	}
	last := fakes[0].steps[len(fakes[0].steps)-1]
	if last.Rows[0].Tokens != nil || last.Rows[0].Computed != 3 {
		t.Errorf("the steady step's first row is %+v", last.Rows[0])
	}
}

func TestPrefillTokensAreSplitExactly(t *testing.T) {
	outcomes, fakes := runAll(t, 1, func(_ int, c *Config, _ *fake) {
		c.Mode, c.WarmupIterations = artifact.Prefill, 0
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[{"batch_size":1,"total_prefill_tokens":1,"total_kv_read_tokens":0},
			{"batch_size":3,"total_prefill_tokens":7,"total_kv_read_tokens":0}],"decode":[]}`)
	})
	if outcomes[0].err != nil {
		t.Fatal(outcomes[0].err)
	}
	var lengths []int
	for _, step := range fakes[0].steps {
		for _, row := range step.Rows {
			lengths = append(lengths, len(row.Tokens))
		}
	}
	if want := []int{1, 3, 2, 2, 1, 3, 2, 2}; !slices.Equal(lengths, want) { // replicas first
		t.Errorf("rows of %v tokens, want %v", lengths, want)
	}
}

func TestRepeatedDecode(t *testing.T) {
	outcomes, _ := runAll(t, 1, func(_ int, c *Config, _ *fake) {
		c.Mode, c.GiantKVThreshold, c.GiantKVRepeats = artifact.Decode, 100, 4
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[],"decode":[{"batch_size":2,"total_kv_read_tokens":99},
			{"batch_size":2,"total_kv_read_tokens":100},{"batch_size":1,"total_kv_read_tokens":125}]}`)
	})
	if outcomes[0].err != nil {
		t.Fatal(outcomes[0].err)
	}
	want := []struct {
		method   string
		expected int
	}{{artifact.LastStep, 2}, {artifact.UpperMedian, 5}, {artifact.UpperMedian, 3}} // the last is capped by the model's length
	for i, row := range outcomes[0].doc.Results {
		m := row.FPMs[0].Measurement
		if m.Estimate.Method != want[i].method || m.ExpectedSamples != want[i].expected || len(m.Raw) != want[i].expected {
			t.Errorf("point %d: %s of %d, %d raw", i, m.Estimate.Method, m.ExpectedSamples, len(m.Raw))
		}
	}
}

// An explicit point that cannot be prepared ends the run; the error names it.
func TestExplicitPointCannotBeSkipped(t *testing.T) {
	comms := world(t, 1)
	c := settings(t)
	c.Manifest = manifest(t, `{"schema_version":1,"prefill":[{"batch_size":1,"total_prefill_tokens":8,"total_kv_read_tokens":16}],"decode":[]}`)
	c.Mode = artifact.Prefill
	s, err := New(c, &fake{}, comms[0])
	if err != nil {
		t.Fatal(err)
	}
	// Something else holds the pool: the point does not fit although the plan says so.
	hog := s.cache.Open(make([]uint32, 1), "hog")
	if err := hog.Grow(s.cache.Usable() * c.BlockSize); err != nil {
		t.Fatal(err)
	}
	c.WarmupIterations, s.cfg.WarmupIterations = 0, 0
	doc, _, err := s.Run(t.Context(), "00")
	if err == nil || !strings.Contains(err.Error(), "explicit point 1") || !strings.Contains(err.Error(), "fake_prefix_cache_allocation_failed") || doc.Status != "failed" {
		t.Errorf("status %s: %v", doc.Status, err)
	}
}
