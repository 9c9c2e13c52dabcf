package artifact

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestWorkerPlace(t *testing.T) {
	if tp, pcp, pp := (Sizes{TP: 2, PCP: 2, PP: 2}).Place(7); tp != 1 || pcp != 1 || pp != 1 {
		t.Errorf("worker 7 of 2x2x2 is at tp %d, pcp %d, pp %d, want 1, 1, 1", tp, pcp, pp)
	}
	seen := map[[3]int]bool{}
	s := Sizes{TP: 2, PCP: 3, PP: 2}
	for w := range s.Workers() {
		tp, pcp, pp := s.Place(w)
		seen[[3]int{tp, pcp, pp}] = true
	}
	if len(seen) != 12 {
		t.Errorf("12 workers have %d places", len(seen))
	}
}

func answer(t *testing.T, dp, worker int, change func(*ProbeReply)) ProbeAnswer {
	t.Helper()
	mode := "NONE"
	r := ProbeReply{DPRank: dp, WorkerRank: worker, TPRank: worker, AttentionBackends: map[string]string{"layers.0": "A"},
		CudagraphMode: &mode, CudagraphCaptureSize: []int{}, CaptureErrors: map[string]string{}}
	if change != nil {
		change(&r)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return ProbeAnswer{JSON: text}
}

func TestSidecar(t *testing.T) {
	good := func(dp int) ProbeAnswer { return answer(t, dp, 0, nil) }
	for _, c := range []struct {
		name     string
		answers  []ProbeAnswer
		failure  string
		merged   string
		complete bool
		missing  []int
		issue    string // part of an issue of the last answer in the merged view
		rank1    string
	}{
		{"both", []ProbeAnswer{good(0), good(1)}, "", "worker_probe", true, []int{}, "", "worker_probe"},
		{"only rank 0", []ProbeAnswer{good(0)}, "", "worker_probe_partial", false, []int{1}, "", "worker_probe_unobserved"},
		{"rank 1 timed out", []ProbeAnswer{good(0), {Type: "TimeoutError", Repr: "no answer"}}, "", "worker_probe_partial", false, []int{1}, "non-JSON response: TimeoutError", "worker_probe_unobserved"},
		{"rank 1 answers a list", []ProbeAnswer{good(0), {JSON: []byte(`[1]`)}}, "", "worker_probe_partial", false, []int{1}, "response is not an object", "worker_probe_unobserved"},
		{"rank 1 answers twice", []ProbeAnswer{good(0), good(1), good(1)}, "", "worker_probe_partial", false, []int{1}, "duplicate (dp_rank, worker_rank)", "worker_probe_unobserved"},
		{"backends differ on a layer", []ProbeAnswer{good(0), answer(t, 1, 0, func(r *ProbeReply) { r.AttentionBackends["layers.0"] = "B" })}, "", "worker_probe_mixed", true, []int{}, "", "worker_probe"},
		{"a layer could not be read", []ProbeAnswer{good(0), answer(t, 1, 0, func(r *ProbeReply) { r.CaptureErrors["layers.1"] = "ValueError: x" })}, "", "worker_probe_partial", false, []int{}, "", "worker_probe_partial"},
		{"place contradicts the topology", []ProbeAnswer{good(0), answer(t, 1, 0, func(r *ProbeReply) { r.TPRank = 1 })}, "", "worker_probe_partial", false, []int{1}, "disagree with TP/PCP/PP topology", "worker_probe_unobserved"},
		{"nobody", nil, "", noValidReplies, false, []int{0, 1}, "", noValidReplies},
		{"call failed", nil, "probe_failed: TimeoutError: ", "probe_failed: TimeoutError: ", false, []int{0, 1}, "", "probe_failed: TimeoutError: "},
	} {
		merged, err := mergeFiles(t, written(t, run(t, 2)))
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSidecar(merged, c.answers, c.failure)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		probe := s.Merged.WorkerProbe
		if s.Merged.Resolution != c.merged || probe.Coverage.Complete != c.complete || !slices.Equal(probe.Coverage.MissingDPRanks, c.missing) {
			t.Errorf("%s: resolution %q, complete %v, missing %v", c.name, s.Merged.Resolution, probe.Coverage.Complete, probe.Coverage.MissingDPRanks)
		}
		if len(probe.Responses) != len(c.answers) {
			t.Errorf("%s: %d of %d answers recorded", c.name, len(probe.Responses), len(c.answers))
		}
		if c.issue != "" {
			if issues := strings.Join(probe.Responses[len(c.answers)-1].Issues, "; "); !strings.Contains(issues, c.issue) {
				t.Errorf("%s: issues %q, want %q", c.name, issues, c.issue)
			}
		}
		if got := s.Ranks["1"].Resolution; got != c.rank1 {
			t.Errorf("%s: rank 1's view says %q, want %q", c.name, got, c.rank1)
		}
		if got := s.Ranks["0"].WorkerProbe.Coverage.ExpectedDPRanks; !slices.Equal(got, []int{0}) {
			t.Errorf("%s: rank 0's view expects %v", c.name, got)
		}
		path := t.TempDir() + "/benchmark_merged_worker_probe.json"
		if err := WriteFile(path, s); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r := CheckFiles([]string{path})[0]; !r.Good() || r.Kind != "sidecar" {
			t.Errorf("%s: check: %v", c.name, r.Violations)
		}
	}
}

func TestNoSidecarWithoutEngine(t *testing.T) {
	paths := written(t, run(t, 2))
	for _, path := range paths {
		edit(t, path, func(d map[string]any) { delete(d, "engine") })
	}
	merged, err := mergeFiles(t, paths)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := NewSidecar(merged, nil, ""); s != nil || err != nil {
		t.Errorf("got %v (%v), want none", s, err)
	}
	if _, has := asTree(t, merged)["worker_probe_path"]; has {
		t.Error("a document without an engine block names a sidecar")
	}
}

// Pipeline stages hold different layers: that they do not share a layer is no disagreement.
func TestPipelineStagesAgree(t *testing.T) {
	answers := []ProbeAnswer{answer(t, 0, 0, nil), answer(t, 0, 1, func(r *ProbeReply) {
		r.TPRank, r.PPRank = 0, 1
		r.AttentionBackends = map[string]string{"layers.1": "A"}
	})}
	v := newView([]int{0}, &Sizes{TP: 1, PCP: 1, PP: 2}, normalize(answers), "", true)
	if v.Resolution != "worker_probe" || v.Attention.BackendResolved == nil || *v.Attention.BackendResolved != "A" {
		t.Errorf("resolution %q, attention %+v", v.Resolution, v.Attention)
	}
	answers[1] = answer(t, 0, 1, func(r *ProbeReply) {
		r.TPRank, r.PPRank = 0, 1
		r.AttentionBackends = map[string]string{"layers.1": "B"}
	})
	v = newView([]int{0}, &Sizes{TP: 1, PCP: 1, PP: 2}, normalize(answers), "", true)
	if v.Resolution != "worker_probe" || v.Attention.Resolution != "worker_probe_mixed" || v.Attention.BackendResolved != nil {
		t.Errorf("two backends on two stages: resolution %q, attention %+v", v.Resolution, v.Attention)
	}
}
