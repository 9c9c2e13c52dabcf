package artifact

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Every way in which a probe's reply can be wrong, with the words of the format; the reply is recorded all the same.
func TestProbeIssues(t *testing.T) {
	reply := func(change func(m map[string]any)) ProbeAnswer {
		m := map[string]any{"dp_rank": 0, "worker_rank": 0, "tp_rank": 0, "pcp_rank": 0, "pp_rank": 0, "attention_backends": map[string]any{"layers.0": "A"},
			"mla_prefill_backend": nil, "cudagraph_mode_resolved": "NONE", "cudagraph_capture_sizes_resolved": []int{}, "capture_errors": map[string]any{}}
		change(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return ProbeAnswer{JSON: text}
	}
	set := func(key string, value any) ProbeAnswer { return reply(func(m map[string]any) { m[key] = value }) }
	without := func(key string) ProbeAnswer { return reply(func(m map[string]any) { delete(m, key) }) }
	for _, c := range []struct {
		name   string
		answer ProbeAnswer
		want   []string
	}{
		{"good", reply(func(map[string]any) {}), nil},
		{"no object", ProbeAnswer{JSON: []byte(`"x"`)}, []string{"response is not an object"}},
		{"no JSON", ProbeAnswer{Type: "bytes", Repr: "\x00"}, []string{"non-JSON response: bytes"}},
		{"bare NaN", ProbeAnswer{JSON: []byte(`{"dp_rank":NaN}`), Type: "dict", Repr: "NaN"}, []string{"non-JSON response: dict"}},
		{"no dp_rank", without("dp_rank"), []string{"missing or invalid dp_rank"}},
		{"negative dp_rank", set("dp_rank", -1), []string{"missing or invalid dp_rank"}},
		{"worker_rank is a bool", set("worker_rank", true), []string{"missing or invalid worker_rank"}},
		{"tp_rank is a float", set("tp_rank", 1.5), []string{"missing or invalid tp_rank"}},
		{"tp_rank is null", set("tp_rank", nil), []string{"missing or invalid tp_rank"}},
		{"pp_rank is null", set("pp_rank", nil), nil},
		{"pcp_rank is absent", without("pcp_rank"), nil},
		{"pp_rank is text", set("pp_rank", "0"), []string{"invalid pp_rank"}},
		{"pcp_rank is negative", set("pcp_rank", -1), []string{"invalid pcp_rank"}},
		{"no backends", without("attention_backends"), []string{"invalid attention_backends"}},
		{"backend without a name", set("attention_backends", map[string]any{"layers.0": ""}), []string{"invalid attention_backends"}},
		{"backend is a number", set("attention_backends", map[string]any{"layers.0": 1}), []string{"invalid attention_backends"}},
		{"mla_prefill_backend is a number", set("mla_prefill_backend", 1), []string{"invalid mla_prefill_backend"}},
		{"mode is a list", set("cudagraph_mode_resolved", []int{}), []string{"invalid cudagraph_mode_resolved"}},
		{"mode is null", set("cudagraph_mode_resolved", nil), nil},
		{"sizes are null", set("cudagraph_capture_sizes_resolved", nil), []string{"invalid cudagraph_capture_sizes_resolved"}},
		{"a size of 0", set("cudagraph_capture_sizes_resolved", []int{1, 0}), []string{"invalid cudagraph_capture_sizes_resolved"}},
		{"a size that is a bool", set("cudagraph_capture_sizes_resolved", []any{true}), []string{"invalid cudagraph_capture_sizes_resolved"}},
		{"everything", ProbeAnswer{JSON: []byte(`{"pp_rank":"x","pcp_rank":"x","mla_prefill_backend":0,"cudagraph_mode_resolved":0}`)}, []string{
			"missing or invalid dp_rank", "missing or invalid worker_rank", "missing or invalid tp_rank", "invalid pp_rank", "invalid pcp_rank", "invalid attention_backends",
			"invalid mla_prefill_backend", "invalid cudagraph_mode_resolved", "invalid cudagraph_capture_sizes_resolved"}},
	} {
		r := normalize([]ProbeAnswer{c.answer})[0]
		if !slices.Equal(r.Issues, c.want) || r.Issues == nil {
			t.Errorf("%s: issues %q, want %q", c.name, r.Issues, c.want)
		}
		if !json.Valid(r.Response) || strings.HasPrefix(c.name, "no JSON") != strings.Contains(string(r.Response), "\\u0000") {
			t.Errorf("%s: recorded %s", c.name, r.Response)
		}
	}
	// All of several replies of one worker are marked, and none of another's; a reply with issues is no duplicate.
	all := normalize([]ProbeAnswer{set("dp_rank", 1), reply(func(map[string]any) {}), reply(func(map[string]any) {}), set("tp_rank", -1)})
	var got []string
	for i, r := range all {
		if r.RPCIndex != i {
			t.Errorf("reply %d has index %d", i, r.RPCIndex)
		}
		got = append(got, strings.Join(r.Issues, "+"))
	}
	if want := []string{"", "duplicate (dp_rank, worker_rank)", "duplicate (dp_rank, worker_rank)", "missing or invalid tp_rank"}; !slices.Equal(got, want) {
		t.Errorf("duplicates: %q, want %q", got, want)
	}
}

// What workers answered differently is listed in the order of the format; null is no answer.
func TestDisagreements(t *testing.T) {
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		name   string
		change func(r *ProbeReply) // of the second worker
		want   []string
	}{
		{"nothing", func(*ProbeReply) {}, []string{}},
		{"disjoint layers", func(r *ProbeReply) { r.AttentionBackends = map[string]string{"layers.9": "B"} }, []string{}},
		{"a layer", func(r *ProbeReply) { r.AttentionBackends["layers.0"] = "B" }, []string{"attention_backends"}},
		{"null for a mode", func(r *ProbeReply) { r.CudagraphMode = nil }, []string{}},
		{"everything", func(r *ProbeReply) {
			r.AttentionBackends["layers.0"], r.MLAPrefillBackend, r.CudagraphMode, r.CudagraphCaptureSize = "B", text("y"), text("FULL"), []int{1}
		}, []string{"attention_backends", "mla_prefill_backend", "cudagraph_mode_resolved", "cudagraph_capture_sizes_resolved"}},
	} {
		base := func(r *ProbeReply) {
			r.MLAPrefillBackend, r.CudagraphMode, r.CudagraphCaptureSize = text("x"), text("NONE"), []int{2}
		}
		second := func(r *ProbeReply) { base(r); c.change(r) }
		v := newView([]int{0, 1}, &Sizes{TP: 1, PCP: 1, PP: 1}, normalize([]ProbeAnswer{answer(t, 0, 0, base), answer(t, 1, 0, second)}), "", true)
		if !slices.Equal(v.WorkerProbe.Disagreements, c.want) || (v.Resolution == "worker_probe_mixed") != (len(c.want) > 0) {
			t.Errorf("%s: %v, resolution %s, want %v", c.name, v.WorkerProbe.Disagreements, v.Resolution, c.want)
		}
	}
}

// Without the DP ranks or the topology nothing is complete, and without the topology places are not checked.
func TestUnknownTopology(t *testing.T) {
	odd := answer(t, 0, 3, func(r *ProbeReply) { r.TPRank = 2 })
	v := newView([]int{0}, nil, normalize([]ProbeAnswer{odd}), "", false)
	c := v.WorkerProbe.Coverage
	if v.Resolution != "worker_probe_partial" || c.Complete || c.ExpectedWorkers != nil || len(c.ObservedWorkers) != 1 || v.Attention != nil {
		t.Errorf("unknown topology: %s, %+v", v.Resolution, c)
	}
	v = newView(nil, &Sizes{TP: 1, PCP: 1, PP: 1}, normalize([]ProbeAnswer{answer(t, 0, 0, nil)}), "", false)
	c = v.WorkerProbe.Coverage
	if v.Resolution != "worker_probe_partial" || c.Complete || c.ExpectedDPRanks != nil || c.MissingDPRanks != nil || len(c.ObservedWorkers) != 1 {
		t.Errorf("unknown DP ranks: %s, %+v", v.Resolution, c)
	}
	for raw, want := range map[string]bool{`{"tensor_parallel_size":2,"pipeline_parallel_size":1,"prefill_context_parallel_size":1}`: true,
		`{"tensor_parallel_size":0,"pipeline_parallel_size":1,"prefill_context_parallel_size":1}`: false, `{"tensor_parallel_size":2}`: false, `null`: false} {
		if got := engineSizes(json.RawMessage(raw)) != nil; got != want {
			t.Errorf("%s: known %v", raw, got)
		}
	}
	// A reply without its place in the pipeline contradicts a known topology.
	v = newView([]int{0}, &Sizes{TP: 1, PCP: 1, PP: 1}, normalize([]ProbeAnswer{{JSON: []byte(`{"dp_rank":0,"worker_rank":0,"tp_rank":0,"pp_rank":null,"pcp_rank":0,"attention_backends":{},
		"mla_prefill_backend":null,"cudagraph_mode_resolved":null,"cudagraph_capture_sizes_resolved":[]}`)}}), "", false)
	if v.Resolution != "worker_probe_unobserved" || !strings.Contains(strings.Join(v.WorkerProbe.Responses[0].Issues, ""), "disagree with TP/PCP/PP topology") {
		t.Errorf("null pp_rank: %s, %v", v.Resolution, v.WorkerProbe.Responses[0].Issues)
	}
}
