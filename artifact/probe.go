package artifact

import (
	"encoding/json"
	"slices"
)

// ProbeReply is what one model worker answers to the probe.
type ProbeReply struct {
	DPRank               int               `json:"dp_rank"`
	WorkerRank           int               `json:"worker_rank"` // within the DP engine
	TPRank               int               `json:"tp_rank"`
	PCPRank              int               `json:"pcp_rank"`
	PPRank               int               `json:"pp_rank"`
	AttentionBackends    map[string]string `json:"attention_backends"` // layer -> backend
	MLAPrefillBackend    *string           `json:"mla_prefill_backend"`
	CudagraphMode        *string           `json:"cudagraph_mode_resolved"`
	CudagraphCaptureSize []int             `json:"cudagraph_capture_sizes_resolved"`
	CaptureErrors        map[string]string `json:"capture_errors"`
}

// Sizes are the parallel sizes inside one DP engine.
type Sizes struct{ TP, PCP, PP int }

// Workers is the number of workers of one DP engine.
func (s Sizes) Workers() int { return s.TP * s.PCP * s.PP }

// Place is the tensor, prefill-context and pipeline rank of a worker of a DP engine.
func (s Sizes) Place(worker int) (tp, pcp, pp int) {
	return worker % s.TP, worker / s.TP % s.PCP, worker / (s.TP * s.PCP) % s.PP
}

// probeResponse is a reply as it is recorded: nothing is dropped.
type probeResponse struct {
	RPCIndex int             `json:"rpc_index"`
	Response json.RawMessage `json:"response"`
	Issues   []string        `json:"issues"`

	reply *ProbeReply // nil when the reply cannot be read
	pcp   bool        // pcp_rank is given
	pp    bool        // pp_rank is given
}

// ProbeAnswer is one raw answer to the probe: JSON, or the error and type name of what is none.
type ProbeAnswer struct {
	JSON json.RawMessage // nil when the answer cannot be expressed in JSON
	Type string          // type name of an answer without JSON
	Repr string          // printed form of an answer without JSON
}

// normalize turns answers into recorded responses with their issues.
func normalize(answers []ProbeAnswer) []probeResponse {
	responses := make([]probeResponse, len(answers))
	for i, a := range answers {
		r := probeResponse{RPCIndex: i, Response: a.JSON, Issues: []string{}}
		tree, err := decodeTree(a.JSON)
		if a.JSON == nil || err != nil {
			r.Response, _ = encode(map[string]string{"unserializable_type": a.Type, "repr": a.Repr})
			r.Issues = append(r.Issues, "non-JSON response: "+a.Type)
		} else {
			r.read(tree)
		}
		responses[i] = r
	}
	type worker struct{ dp, rank int }
	count := map[worker]int{}
	for _, r := range responses {
		if r.reply != nil {
			count[worker{r.reply.DPRank, r.reply.WorkerRank}]++
		}
	}
	for i, r := range responses {
		if r.reply != nil && count[worker{r.reply.DPRank, r.reply.WorkerRank}] > 1 {
			responses[i].Issues = append(r.Issues, "duplicate (dp_rank, worker_rank)")
		}
	}
	return responses
}

// read checks a reply's members and keeps it when it has no issues.
func (r *probeResponse) read(tree any) {
	object, ok := tree.(map[string]any)
	if !ok {
		r.Issues = append(r.Issues, "response is not an object")
		return
	}
	reply := &ProbeReply{}
	var silent violations
	doc := root(object, &silent)
	number := func(key string, optional bool) (int, bool) {
		n := doc.optional(key)
		v, ok := n.int()
		switch {
		case n.isNull() && optional:
			return 0, false
		case !ok || v < 0 || n.isNull():
			kind := "missing or invalid "
			if optional {
				kind = "invalid "
			}
			r.Issues = append(r.Issues, kind+key)
		}
		return v, true
	}
	reply.DPRank, _ = number("dp_rank", false)
	reply.WorkerRank, _ = number("worker_rank", false)
	reply.TPRank, _ = number("tp_rank", false)
	reply.PPRank, r.pp = number("pp_rank", true)
	reply.PCPRank, r.pcp = number("pcp_rank", true)
	if reply.AttentionBackends, ok = texts(doc.optional("attention_backends").value); !ok {
		r.Issues = append(r.Issues, "invalid attention_backends")
	}
	optionalText := func(key string) *string {
		v := doc.optional(key)
		s, ok := v.value.(string)
		if v.isNull() {
			return nil
		}
		if !ok {
			r.Issues = append(r.Issues, "invalid "+key)
		}
		return &s
	}
	reply.MLAPrefillBackend = optionalText("mla_prefill_backend")
	reply.CudagraphMode = optionalText("cudagraph_mode_resolved")
	before := len(silent)
	reply.CudagraphCaptureSize = ints(doc.optional("cudagraph_capture_sizes_resolved"))
	if sizes := doc.optional("cudagraph_capture_sizes_resolved"); len(silent) > before || !sizes.ok || slices.ContainsFunc(reply.CudagraphCaptureSize, func(n int) bool { return n < 1 }) {
		r.Issues = append(r.Issues, "invalid cudagraph_capture_sizes_resolved")
	}
	reply.CaptureErrors, _ = texts(doc.optional("capture_errors").value)
	if len(r.Issues) == 0 {
		r.reply = reply
	}
}

// texts is an object of non-empty strings.
func texts(v any) (map[string]string, bool) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	m := make(map[string]string, len(object))
	for key, value := range object {
		s, ok := value.(string)
		if !ok || s == "" {
			return nil, false
		}
		m[key] = s
	}
	return m, true
}

// noValidReplies is the failure of a probe that nobody answered properly.
const noValidReplies = "probe_failed: no valid worker probe responses"
