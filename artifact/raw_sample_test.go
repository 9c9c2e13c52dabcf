package artifact

import (
	"errors"
	"testing"
)

// Every raw sample of every rank is visited once, with its own step's evidence; what is not recorded stays nil.
func TestRawSamples(t *testing.T) {
	docs := run(t, 2)
	for _, d := range docs {
		d.FPMRun = History{Processes: []ProcessHistory{}, Points: []PointEvidence{{BenchmarkID: 2, Steps: []StepEvidence{{ForwardIndex: 9, MinorFaults: 10 + d.DP.Rank, CPUTime: 0.5}}}}}
	}
	merged, err := mergeFiles(t, written(t, docs))
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/benchmark_merged.json"
	if err := WriteFile(path, merged); err != nil {
		t.Fatal(err)
	}
	d, err := ReadDocument(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows []RawSample
	if err := d.RawSamples(func(s *RawSample) error { rows = append(rows, *s); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2*(1+2+2) {
		t.Fatalf("%d rows, want 10", len(rows))
	}
	admission, steady := rows[4], rows[5] // of rank 1 at point 2
	if admission.Used || !steady.Used || steady.DPRank != 1 || steady.BenchmarkID != 2 || *steady.ForwardIndex != 9 || *steady.MinorFaults != 11 || *steady.CPUTime != 0.5 ||
		admission.MinorFaults != nil || steady.NewTokens != 2 || *steady.Method != LastStep || *steady.RuntimeMode != "NONE" || steady.LowestSM != nil || steady.WallTime != steady.Retained {
		t.Errorf("admission %+v\nsteady %+v", admission, steady)
	}
	stop, calls := errors.New("stop"), 0
	if err := d.RawSamples(func(*RawSample) error { calls++; return stop }); !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
