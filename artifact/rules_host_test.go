package artifact

import (
	"encoding/json"
	"strings"
	"testing"
)

// hostEvidence is evidence of every point of a rank's document.
func hostEvidence(doc *Rank) *History {
	h := &History{}
	for _, r := range doc.Results {
		p := PointEvidence{BenchmarkID: r.Point.BenchmarkID}
		for _, raw := range r.FPMs[0].Measurement.Raw {
			p.Steps = append(p.Steps, StepEvidence{ForwardIndex: raw.Sample.ForwardIndex, MinorFaults: 2})
		}
		h.Points = append(h.Points, p)
	}
	return h
}

func TestHostEvidenceRules(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(h *History)
		want   string // violation in the rank's document
	}{
		{"as it should be", func(*History) {}, ""},
		{"a point without steps", func(h *History) { h.Points[1].Steps = []StepEvidence{} }, ""},
		{"points that are not there", func(h *History) { h.Points = nil }, ""},
		{"a collection", func(h *History) { h.Points[1].Steps[0].CollectorCycles = 1 }, "points[1].steps[0].collector_cycles: the Go collector ran inside a timed step"},
		{"another forward", func(h *History) { h.Points[2].Steps[0].ForwardIndex++ }, "points[2].steps: want the forwards ["},
		{"a step too many", func(h *History) { h.Points[0].Steps = append(h.Points[0].Steps, StepEvidence{}) }, "points[0].steps: want the forwards ["},
		{"twice", func(h *History) { h.Points[2] = h.Points[1] }, "points[2].benchmark_id: 2 is no measured point, or stands in an earlier entry too"},
		{"no such point", func(h *History) { h.Points[0].BenchmarkID = 9 }, "points[0].benchmark_id: 9 is no measured point"},
		{"fewer than none", func(h *History) { h.Points[0].Steps[0].MajorFaults = -1 }, "major_page_faults: want an integer of at least 0"},
	} {
		docs := run(t, 2)
		for _, d := range docs {
			d.FPMRun = hostEvidence(d)
		}
		own := hostEvidence(docs[1])
		c.change(own)
		docs[1].FPMRun = own
		parsed := make([]*Document, 2)
		for i, d := range docs {
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if parsed[i], err = ParseDocument("benchmark.json", text); err != nil {
				t.Fatal(err)
			}
		}
		compare := func(kind, prefix string, found []Violation) {
			t.Helper()
			if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0].Path, prefix) || !strings.Contains(found[0].String(), c.want)) {
				t.Errorf("%s, %s: got %v, want %q", c.name, kind, found, c.want)
			}
		}
		compare("rank", "$.fpmrun.", parsed[1].checkRank())
		merged, err := Merge(parsed, "merged.json")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(merged)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := ParseDocument("merged.json", text)
		if err != nil {
			t.Fatal(err)
		}
		compare("merged", "$.fpmrun.1.", doc.checkMerged())
	}
}
