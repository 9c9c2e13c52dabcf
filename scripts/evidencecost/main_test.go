package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 3, 2, 1}, 2.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("%v: got %v, want %v", c.values, got, c.want)
		}
	}
}

// The interval covers the true median about as often as it says, and a constant has no spread.
func TestBootstrapCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	covered := 0
	const runs = 200
	for range runs {
		values := make([]float64, 10)
		for i := range values {
			values[i] = 5 + random.NormFloat64()
		}
		if low, high := bootstrap(values, 500); low <= 5 && 5 <= high {
			covered++
		}
	}
	if covered < runs*85/100 {
		t.Errorf("the true median is in %d of %d intervals", covered, runs)
	}
	if low, high := bootstrap([]float64{2, 2, 2}, 100); low != 2 || high != 2 {
		t.Errorf("interval of a constant: %v to %v", low, high)
	}
}

// document writes one of pairs of points whose steady steps take a time in microseconds, with and without the evidence, behind an admission step that
// does not count.
func document(t *testing.T, full, minimal float64, steps int, evidence func(id int) bool) string {
	t.Helper()
	var results, points []string
	for id := 1; id <= 6; id++ {
		us := minimal
		if evidence(id) {
			us = full
			points = append(points, fmt.Sprintf(`{"benchmark_id": %d}`, id))
		}
		raw := []string{`{"wall_time": 9.0, "benchmark_sample": {"timing": {"basis": "schedule_to_output"}}}`}
		for i := range steps {
			raw = append(raw, fmt.Sprintf(`{"wall_time": %v, "benchmark_sample": {"timing": {"basis": "inter_output"}}}`, (us+math.Mod(float64(i), 3)-1)*1e-6))
		}
		results = append(results, fmt.Sprintf(`{"point": {"benchmark_id": %d}, "fpms": [{"benchmark_measurement": {"raw_fpms": [%s]}}]}`, id, strings.Join(raw, ",")))
	}
	path := filepath.Join(t.TempDir(), "benchmark.json")
	text := fmt.Sprintf(`{"fpmrun": {"points": [%s]}, "results": [%s]}`, strings.Join(points, ","), strings.Join(results, ","))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRun(t *testing.T) {
	abba := func(id int) bool { return id%4 <= 1 }
	for _, c := range []struct {
		name          string
		full, minimal float64 // us
		evidence      func(id int) bool
		steps, status int
		want          string
	}{
		{"cheap", 103, 100, abba, 30, 0, "3 pairs of 30 steps: a step takes 100.0 us; evidence adds +3.00 us (+3.00 %), 95 % interval +3.00 to +3.00 us; limit 20.0 us"},
		{"half a percent of a long step", 10040, 10000, abba, 30, 0, "limit 50.0 us"},
		{"too much", 130, 100, abba, 30, 1, "above the limit"},
		{"not in turn", 100, 100, func(int) bool { return true }, 30, 1, "points 1 and 2 are no pair"},
		{"no steps", 100, 100, abba, 0, 1, "points 1 and 2 are no pair"},
	} {
		var out, errs bytes.Buffer
		if status := run([]string{document(t, c.full, c.minimal, c.steps, c.evidence)}, &out, &errs); status != c.status || !strings.Contains(out.String()+errs.String(), c.want) {
			t.Errorf("%s: status %d, want %d\n%s%s", c.name, status, c.status, out.String(), errs.String())
		}
	}
	var out, errs bytes.Buffer
	if status := run(nil, &out, &errs); status != 2 {
		t.Errorf("without a file: status %d", status)
	}
	if status := run([]string{filepath.Join(t.TempDir(), "nowhere")}, &out, &errs); status != 1 {
		t.Errorf("without a document: status %d", status)
	}
}
