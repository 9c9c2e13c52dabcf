package artifact

import (
	"encoding/json"
	"maps"
	"slices"
)

// View is what a probe established for one document: the merged one or one rank's.
type View struct {
	Resolved      json.RawMessage `json:"resolved"`       // the first observed worker's reply, or null
	ResolvedScope *string         `json:"resolved_scope"` // representative_worker, or null
	Resolution    string          `json:"resolution"`
	WorkerProbe   viewProbe       `json:"worker_probe"`
	Attention     *viewAttention  `json:"attention,omitempty"`
}

type viewProbe struct {
	SchemaVersion int             `json:"schema_version"`
	Scope         string          `json:"scope"`
	Responses     []probeResponse `json:"responses"`
	Coverage      viewCoverage    `json:"coverage"`
	Disagreements []string        `json:"disagreements"`
	Error         *string         `json:"error"`
}

type viewCoverage struct {
	Scope           string       `json:"scope"`
	ExpectedDPRanks []int        `json:"expected_dp_ranks"`
	ExpectedWorkers *int         `json:"expected_workers_per_dp"`
	ObservedWorkers []viewWorker `json:"observed_workers"`
	MissingDPRanks  []int        `json:"missing_dp_ranks"`
	Complete        bool         `json:"complete"`
}

type viewWorker struct {
	DPRank     int  `json:"dp_rank"`
	WorkerRank int  `json:"worker_rank"`
	TPRank     int  `json:"tp_rank"`
	PPRank     *int `json:"pp_rank"`
	PCPRank    *int `json:"pcp_rank"`
}

type viewAttention struct {
	BackendResolved           *string `json:"backend_resolved"`
	MLAPrefillBackendResolved *string `json:"mla_prefill_backend_resolved"`
	Resolution                string  `json:"resolution"`
}

// newView computes the view of the given DP ranks (nil: unknown). sizes is nil when the topology is unknown.
func newView(ranks []int, sizes *Sizes, responses []probeResponse, failure string, attention bool) View {
	copied := make([]probeResponse, len(responses))
	for i, r := range responses {
		r.Issues = slices.Clone(r.Issues)
		copied[i] = r
	}
	observed := observe(copied, ranks, sizes)
	v := View{Resolved: json.RawMessage("null"), WorkerProbe: viewProbe{SchemaVersion: 1, Scope: "post_collection_collective_rpc", Responses: copied}}
	v.WorkerProbe.Coverage = coverage(copied, observed, ranks, sizes)
	v.WorkerProbe.Disagreements = disagreements(observed)
	if len(observed) > 0 {
		scope := "representative_worker"
		v.Resolved, v.ResolvedScope = observed[0].Response, &scope
	}
	switch {
	case failure != "":
		v.Resolution, v.WorkerProbe.Error = failure, &failure
	case len(observed) == 0:
		v.Resolution = "worker_probe_unobserved"
	case len(v.WorkerProbe.Disagreements) > 0:
		v.Resolution = "worker_probe_mixed"
	case v.WorkerProbe.Coverage.Complete:
		v.Resolution = "worker_probe"
	default:
		v.Resolution = "worker_probe_partial"
	}
	if attention {
		v.Attention = attentionOf(observed, v.Resolution)
	}
	return v
}

// observe marks replies that contradict the topology and returns those that count for the ranks.
func observe(responses []probeResponse, ranks []int, sizes *Sizes) []probeResponse {
	var mine []int
	for i, r := range responses {
		if r.reply == nil || len(r.Issues) > 0 || ranks != nil && !slices.Contains(ranks, r.reply.DPRank) {
			continue
		}
		if sizes != nil {
			tp, pcp, pp := sizes.Place(r.reply.WorkerRank)
			if !r.pcp || !r.pp || r.reply.TPRank != tp || r.reply.PCPRank != pcp || r.reply.PPRank != pp {
				responses[i].Issues = append(r.Issues, "worker ranks disagree with TP/PCP/PP topology")
				continue
			}
		}
		mine = append(mine, i)
	}
	type slot struct{ dp, tp, pcp, pp int }
	count := map[slot]int{}
	at := func(i int) slot {
		r := responses[i].reply
		return slot{r.DPRank, r.TPRank, r.PCPRank, r.PPRank}
	}
	for _, i := range mine {
		count[at(i)]++
	}
	var observed []probeResponse
	for _, i := range mine {
		if sizes != nil && count[at(i)] > 1 {
			responses[i].Issues = append(responses[i].Issues, "duplicate (dp_rank, tp_rank, pcp_rank, pp_rank)")
			continue
		}
		observed = append(observed, responses[i])
	}
	return observed
}

func coverage(all, observed []probeResponse, ranks []int, sizes *Sizes) viewCoverage {
	c := viewCoverage{Scope: "artifact_workers", ExpectedDPRanks: ranks, ObservedWorkers: []viewWorker{}}
	seen := map[int]bool{}
	whole := true
	for _, r := range observed {
		w := viewWorker{DPRank: r.reply.DPRank, WorkerRank: r.reply.WorkerRank, TPRank: r.reply.TPRank}
		if r.pp {
			w.PPRank = &r.reply.PPRank
		}
		if r.pcp {
			w.PCPRank = &r.reply.PCPRank
		}
		c.ObservedWorkers = append(c.ObservedWorkers, w)
		seen[w.DPRank] = true
		whole = whole && len(r.reply.CaptureErrors) == 0
	}
	for _, r := range all {
		whole = whole && len(r.Issues) == 0
	}
	if ranks != nil {
		c.MissingDPRanks = []int{}
		for _, rank := range slices.Sorted(slices.Values(ranks)) {
			if !seen[rank] {
				c.MissingDPRanks = append(c.MissingDPRanks, rank)
			}
		}
	}
	if sizes != nil {
		workers := sizes.Workers()
		c.ExpectedWorkers = &workers
		c.Complete = whole && ranks != nil && len(observed) == len(ranks)*workers
	}
	return c
}

// disagreements names what workers answered differently.
func disagreements(observed []probeResponse) []string {
	backends := map[string]string{}
	var mla, mode *string
	var sizes []int
	var mixedBackends, mixedMLA, mixedMode, mixedSizes bool
	differ := func(first **string, v *string) bool {
		if v == nil {
			return false
		}
		if *first == nil {
			*first = v
		}
		return **first != *v
	}
	for _, r := range observed {
		for layer, name := range r.reply.AttentionBackends {
			if other, ok := backends[layer]; ok && other != name {
				mixedBackends = true
			}
			backends[layer] = name
		}
		mixedMLA = differ(&mla, r.reply.MLAPrefillBackend) || mixedMLA
		mixedMode = differ(&mode, r.reply.CudagraphMode) || mixedMode
		if sizes == nil {
			sizes = r.reply.CudagraphCaptureSize
		}
		mixedSizes = mixedSizes || !slices.Equal(sizes, r.reply.CudagraphCaptureSize)
	}
	names := []string{}
	for _, d := range []struct {
		mixed bool
		name  string
	}{{mixedBackends, "attention_backends"}, {mixedMLA, "mla_prefill_backend"}, {mixedMode, "cudagraph_mode_resolved"}, {mixedSizes, "cudagraph_capture_sizes_resolved"}} {
		if d.mixed {
			names = append(names, d.name)
		}
	}
	return names
}

func attentionOf(observed []probeResponse, resolution string) *viewAttention {
	a := &viewAttention{Resolution: resolution}
	backends := map[string]bool{}
	for i, r := range observed {
		for _, name := range r.reply.AttentionBackends {
			backends[name] = true
		}
		mla := r.reply.MLAPrefillBackend
		if i == 0 {
			a.MLAPrefillBackendResolved = mla
		} else if first := a.MLAPrefillBackendResolved; (mla == nil) != (first == nil) || mla != nil && *mla != *first {
			a.MLAPrefillBackendResolved = nil
		}
	}
	names := slices.Sorted(maps.Keys(backends))
	switch len(names) {
	case 0:
	case 1:
		a.BackendResolved = &names[0]
	default:
		a.Resolution = "worker_probe_mixed"
	}
	return a
}
