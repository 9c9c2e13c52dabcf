package artifact

import (
	"encoding/json"
	"strconv"
)

// SidecarSchema names the worker-probe document; readers that sweep for rank documents skip it by this name.
const SidecarSchema = "dynamo.fpm.benchmark_worker_probe"

// Sidecar is the worker-probe document beside a merged one.
type Sidecar struct {
	Schema           string                 `json:"schema"`
	SchemaVersion    int                    `json:"schema_version"`
	RunID            string                 `json:"run_id"`
	MergedOutputPath string                 `json:"merged_output_path"`
	RankFiles        []string               `json:"rank_files"`
	Merged           View                   `json:"merged"`
	Ranks            map[string]SidecarRank `json:"ranks"`
}

// SidecarRank is one rank's view.
type SidecarRank struct {
	RankFile string `json:"rank_file"`
	View
}

// NewSidecar computes the views of a merged document from the probe's answers, in the order of their arrival at
// the caller (world rank order). failure is the text of a probe that failed as a whole, or "". It returns nil for a
// document without an engine block: there is nothing to resolve.
func NewSidecar(m *Merged, answers []ProbeAnswer, failure string) (*Sidecar, error) {
	if m.members["engine"] == nil {
		return nil, nil
	}
	var head struct {
		RunID string   `json:"run_id"`
		Path  string   `json:"merged_output_path"`
		Files []string `json:"rank_files"`
		DP    struct {
			Ranks  []int `json:"ranks"`
			Source []int `json:"source_ranks"`
		} `json:"dp"`
		Engine map[string]json.RawMessage `json:"engine"`
	}
	for key, place := range map[string]any{"run_id": &head.RunID, "merged_output_path": &head.Path, "rank_files": &head.Files, "dp": &head.DP, "engine": &head.Engine} {
		if err := json.Unmarshal(m.members[key], place); err != nil {
			return nil, err
		}
	}
	responses := normalize(answers)
	valid := false
	for _, r := range responses {
		valid = valid || len(r.Issues) == 0
	}
	if failure == "" && !valid {
		failure = noValidReplies
	}
	sizes := engineSizes(head.Engine["parallel"])
	var attention map[string]any
	hasAttention := json.Unmarshal(head.Engine["attention"], &attention) == nil && attention != nil
	s := &Sidecar{Schema: SidecarSchema, SchemaVersion: 1, RunID: head.RunID, MergedOutputPath: head.Path, RankFiles: head.Files,
		Merged: newView(head.DP.Ranks, sizes, responses, failure, hasAttention), Ranks: map[string]SidecarRank{}}
	for i, rank := range head.DP.Source {
		s.Ranks[strconv.Itoa(rank)] = SidecarRank{RankFile: head.Files[i], View: newView([]int{rank}, sizes, responses, failure, hasAttention)}
	}
	return s, nil
}

// engineSizes is the topology inside a DP engine, or nil when it is not known whole.
func engineSizes(raw json.RawMessage) *Sizes {
	var p struct {
		TP  *int `json:"tensor_parallel_size"`
		PP  *int `json:"pipeline_parallel_size"`
		PCP *int `json:"prefill_context_parallel_size"`
	}
	if json.Unmarshal(raw, &p) != nil || p.TP == nil || p.PP == nil || p.PCP == nil || *p.TP < 1 || *p.PP < 1 || *p.PCP < 1 {
		return nil
	}
	return &Sizes{TP: *p.TP, PP: *p.PP, PCP: *p.PCP}
}
