package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// One coordinate three times, with computed prefixes on: one key, the same prompts, and no token of it read from the cache, neither by what was recorded
// nor by what the cache manager found.
func TestEvidenceCase01RepeatedCoordinate(t *testing.T) {
	outcomes, fakes := runAll(t, 1, func(_ int, c *Config, _ *fake) {
		c.Mode, c.PrefillRealSeed, c.WarmupIterations = artifact.Prefill, true, 0
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0},
			{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0},{"batch_size":1,"total_prefill_tokens":64,"total_kv_read_tokens":0}],"decode":[]}`)
	})
	if outcomes[0].err != nil {
		t.Fatal(outcomes[0].err)
	}
	rows := outcomes[0].doc.Results
	first := rows[0].FPMs[0].Measurement
	if len(rows) != 3 {
		t.Fatalf("%d results", len(rows))
	}
	for _, row := range rows {
		m := row.FPMs[0].Measurement
		if m.PointKey != first.PointKey || *m.Prompts.SHA256 != *first.Prompts.SHA256 || row.FPMs[0].Scheduled.SumPrefillKVTokens != 0 || row.FPMs[0].Scheduled.SumPrefillTokens != 64 {
			t.Errorf("point %d: key %s, prompts %s, %+v", row.Point.BenchmarkID, m.PointKey, *m.Prompts.SHA256, row.FPMs[0].Scheduled)
		}
	}
	for i, step := range fakes[0].steps { // a replica and three points: each computes all of its prompt
		if len(step.Rows) != 1 || step.Rows[0].Computed != 0 || len(step.Rows[0].Tokens) != 64 {
			t.Errorf("step %d computes %d tokens on top of %d", i, len(step.Rows[0].Tokens), step.Rows[0].Computed)
		}
	}
}

// However eager the Go collector is set outside, it does not run between the first and the last step of a point; afterwards the setting is what it was.
func TestEvidenceCase03NoCollectorInATimedStep(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	var cycles []uint32 // at each step's end
	outcomes, _ := runAll(t, 1, func(_ int, c *Config, f *fake) {
		c.Mode, c.WarmupIterations, c.GiantKVThreshold, c.GiantKVRepeats = artifact.Decode, 0, 0, 3
		var points []string
		for i := range 200 {
			points = append(points, fmt.Sprintf(`{"batch_size":%d,"total_kv_read_tokens":%d}`, 1+i%4, 16+i%100))
		}
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[],"decode":[`+strings.Join(points, ",")+`]}`)
		var m runtime.MemStats
		f.before = func(context.Context, *gpu.Step) error {
			runtime.ReadMemStats(&m)
			cycles = append(cycles, m.NumGC)
			return nil
		}
	})
	if outcomes[0].err != nil {
		t.Fatal(outcomes[0].err)
	}
	measured := 0
	for _, row := range outcomes[0].doc.Results {
		for _, raw := range row.FPMs[0].Measurement.Raw[1:] {
			measured++
			if at := raw.Sample.ForwardIndex; cycles[at] != cycles[at-1] {
				t.Errorf("point %d: the collector ran in the step of forward %d", row.Point.BenchmarkID, at)
			}
		}
	}
	if measured < 600 {
		t.Errorf("%d steady steps were looked at", measured)
	}
	if got := debug.SetGCPercent(1); got != 1 {
		t.Errorf("the collector's setting is %d after the run", got)
	}
}

// Rank 1 takes 20 ms longer for each step: the group's time is exactly rank 1's, each rank keeps its own, waiting is in neither, and the sum adds the slowest.
// Time is virtual.
func TestEvidenceCase06SlowRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := worldOn(t, collective.NewMemory(time.Millisecond, 0), 2)
		parts := runEngines(t, comms, 1, func(rank int, c *Config, f *fake) {
			c.Mode = artifact.Decode
			f.before = func(context.Context, *gpu.Step) error {
				time.Sleep(time.Millisecond + time.Duration(rank)*20*time.Millisecond)
				return nil
			}
		})
		sum := 0.0
		for i, group := range parts[0].doc.Groups {
			own := [2]artifact.Float{parts[0].doc.Results[i].FPMs[0].WallTime, parts[1].doc.Results[i].FPMs[0].WallTime}
			for rank, want := range []float64{0.001, 0.021} {
				if got := float64(own[rank]); math.Abs(got-want) > 1e-6 || group.RankResults[rank].FPMs[0].WallTime != own[rank] {
					t.Errorf("point %d: rank %d took %v, want %v and no wait for the other", i, rank, got, want)
				}
			}
			if group.WallTime != own[1] {
				t.Errorf("point %d: the group took %v, rank 1 %v", i, group.WallTime, own[1])
			}
			sum += float64(group.WallTime)
		}
		for rank, p := range parts {
			if got := float64(p.doc.Timing.Measured); got != sum || len(p.doc.Groups) == 0 {
				t.Errorf("rank %d: measured seconds %v, want %v", rank, got, sum)
			}
		}
	})
}

// Tokens are counted from the ids that were injected: 1; 3, 2 and 2. Decode contexts below two tokens a request are recorded as what was read, and said to be clamped.
func TestEvidenceCase08SmallCoordinates(t *testing.T) {
	outcomes, fakes := runAll(t, 1, func(_ int, c *Config, _ *fake) {
		c.WarmupIterations = 0
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[{"batch_size":1,"total_prefill_tokens":1,"total_kv_read_tokens":0},{"batch_size":3,"total_prefill_tokens":7,"total_kv_read_tokens":0}],
			"decode":[{"batch_size":4,"total_kv_read_tokens":4},{"batch_size":4,"total_kv_read_tokens":5},{"batch_size":4,"total_kv_read_tokens":8},{"batch_size":4,"total_kv_read_tokens":9}]}`)
	})
	if outcomes[0].err != nil {
		t.Fatal(outcomes[0].err)
	}
	var got []string
	for i, row := range outcomes[0].doc.Results {
		var tokens []int
		for _, r := range fakes[0].steps[row.FPMs[0].Measurement.Raw[0].Sample.ForwardIndex].Rows {
			tokens = append(tokens, len(r.Tokens))
		}
		if i < 2 {
			got = append(got, fmt.Sprint(tokens))
			continue
		}
		clamped := map[bool]string{true: " clamped"}[row.Point.Has(artifact.ReasonContextClamped)]
		got = append(got, fmt.Sprint(row.Point.TotalKVReadTokens, clamped))
	}
	if want := []string{"[1]", "[3 2 2]", "8 clamped", "8 clamped", "8", "9"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Stamps are UTC wherever and whenever the run is.
func TestEvidenceCase17Stamps(t *testing.T) {
	kathmandu := time.FixedZone("+0545", 5*3600+45*60)
	begin := time.Date(2027, 1, 1, 5, 44, 59, 999999999, kathmandu) // a nanosecond before the year's end in UTC
	if got, want := *stamp(begin), "2026-12-31T23:59:59.999999Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := *stamp(begin.Add(time.Second)), "2027-01-01T00:00:00.999999Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	outcomes, _ := runAll(t, 1, nil)
	if timing := outcomes[0].doc.Timing; !strings.HasSuffix(*timing.StartedAt, "Z") || *timing.CompletedAt < *timing.StartedAt {
		t.Errorf("started at %s, completed at %s", *timing.StartedAt, *timing.CompletedAt)
	}
}

// While one run writes into a folder, a second one with the same path is refused with the file's name, whatever it was asked to overwrite, and the first goes on.
func TestEvidenceCase20SecondLaunch(t *testing.T) {
	base := filepath.Join(t.TempDir(), "benchmark.json")
	first, err := PrepareOutput(base, "", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, overwrite := range []bool{false, true} {
		if _, err := PrepareOutput(base, "", 0, overwrite); err == nil || !strings.Contains(err.Error(), "another run is writing") || !strings.Contains(err.Error(), base) {
			t.Errorf("overwrite %v: %v", overwrite, err)
		}
	}
	if err := artifact.WriteFile(base, map[string]int{"a": 1}); err != nil {
		t.Errorf("the first run cannot write any more: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

// A folder that cannot be written is found before anything runs, with its path and who could not.
func TestEvidenceCase21UnwritableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{filepath.Join(file, "benchmark.json"), "/proc/nowhere/benchmark.json"} {
		if _, err := PrepareOutput(base, "", 0, false); err == nil || !strings.Contains(err.Error(), base) || !strings.Contains(err.Error(), fmt.Sprintf("user %d", os.Getuid())) {
			t.Errorf("%s: %v", base, err)
		}
	}
}
