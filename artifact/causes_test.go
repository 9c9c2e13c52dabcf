package artifact

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// quiet is the evidence of n points of two steps on a busy host, none of which stands out.
func quiet(n int) []PointEvidence {
	points := make([]PointEvidence, n)
	for i := range points {
		mhz := 1980 - i
		reading := HostReading{GPUs: []GPUReading{{UUID: "GPU-a", SM: &mhz, Throttle: []string{"gpu_idle", "sw_thermal_slowdown"}}}}
		points[i] = PointEvidence{BenchmarkID: i + 1, Before: reading, After: reading}
		for k := range 2 {
			points[i].Steps = append(points[i].Steps, StepEvidence{ForwardIndex: 10*i + k, MinorFaults: 100 + i, InvoluntarySwitches: 2 + i%2, VoluntarySwitches: 40})
		}
	}
	return points
}

// What happens once is named where it happened and nowhere else; what always happens is not.
func TestCauses(t *testing.T) {
	slow := 1580
	gpu := func(mhz *int, reasons ...string) HostReading {
		return HostReading{GPUs: []GPUReading{{UUID: "GPU-a", SM: mhz, Throttle: reasons}}}
	}
	for _, c := range []struct {
		name   string
		change func(p *PointEvidence)
		want   []string
	}{
		{"nothing", func(*PointEvidence) {}, nil},
		{"collector", func(p *PointEvidence) { p.Steps[1].CollectorCycles = 1 }, []string{"4/31 the Go collector ran 1 times"}},
		{"CPU", func(p *PointEvidence) { p.Steps[0].InvoluntarySwitches = 12 }, []string{"4/30 the CPU went to other threads 12 times"}},
		{"disk", func(p *PointEvidence) { p.Steps[0].MajorFaults = 3 }, []string{"4/30 3 pages came from disk"}},
		{"memory", func(p *PointEvidence) { p.Steps[1].MinorFaults = 5000 }, []string{"4/31 5000 pages were new"}},
		{"power", func(p *PointEvidence) { p.After = gpu(nil, "sw_power_cap", "sw_thermal_slowdown") }, []string{"4/-1 GPU GPU-a was slowed down: sw_power_cap"}},
		{"clock", func(p *PointEvidence) { p.Before = gpu(&slow) }, []string{"4/-1 GPU GPU-a ran at 1580 MHz, usually at 1976"}},
		{"two", func(p *PointEvidence) { p.Steps[0].MajorFaults, p.Steps[0].CollectorCycles = 1, 2 },
			[]string{"4/30 1 pages came from disk", "4/30 the Go collector ran 2 times"}},
	} {
		points := quiet(7)
		c.change(&points[3])
		var got []string
		for _, cause := range Causes(points) {
			got = append(got, fmt.Sprintf("%d/%d %s", cause.BenchmarkID, cause.ForwardIndex, cause.Text))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := Causes(nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// A merged document tells the rank, in their order as numbers; other evidence of the project is no hindrance.
func TestCausesOfDocuments(t *testing.T) {
	points := quiet(7)
	points[3].Steps[1].CollectorCycles = 1
	text := jsonText(t, map[string]any{"launch": map[string]int{"rank": 1}, "points": points})
	for _, c := range []struct {
		document string
		want     []string
	}{
		{`{"artifact_type": "rank", "fpmrun": ` + text + `}`, []string{"point 4, forward 31: the Go collector ran 1 times"}},
		{`{"artifact_type": "merged", "fpmrun": {"10": ` + text + `, "2": ` + text + `, "3": {}}}`,
			[]string{"rank 2, point 4, forward 31: the Go collector ran 1 times", "rank 10, point 4, forward 31: the Go collector ran 1 times"}},
		{`{"artifact_type": "merged"}`, nil},
	} {
		o, err := pieceByPiece([]byte(c.document), walkPiece)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(o.Causes, c.want) {
			t.Errorf("got %q, want %q", o.Causes, c.want)
		}
	}
	j := &Journal{}
	for i := range points {
		j.Points = append(j.Points, JournalPoint{Evidence: &points[i]})
	}
	j.Points[0].Evidence = nil
	if got := j.Causes(); !slices.Equal(got, []string{"point 4, forward 31: the Go collector ran 1 times"}) {
		t.Errorf("of a journal: %q", got)
	}
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
