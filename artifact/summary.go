package artifact

import (
	"fmt"
	"slices"
)

// Summary is one measured point in short.
type Summary struct {
	BenchmarkID  int      `json:"benchmark_id"`
	PointType    string   `json:"point_type"`
	BatchSize    int      `json:"batch_size"`
	NewTokens    int      `json:"new_tokens"`   // computed by the step: prefill tokens, or one per decode request
	KVTokens     int      `json:"kv_tokens"`    // read by the step
	Mode         string   `json:"runtime_mode"` // observed dispatch, or "unknown"
	WallTime     Float    `json:"wall_time"`    // seconds, the slowest rank's
	Fastest      Float    `json:"fastest_rank_wall_time"`
	Samples      int      `json:"raw_samples"` // of the slowest rank, admission included
	Method       string   `json:"method"`
	TokensPerSec Float    `json:"tokens_per_second"` // over all DP ranks
	Reasons      []string `json:"sample_reasons"`
}

// Summarize is the short form of groups in their order.
func Summarize(groups []Group) []Summary {
	rows := make([]Summary, len(groups))
	for i := range groups {
		rows[i] = groups[i].summary()
	}
	return rows
}

func (g *Group) summary() Summary {
	s := Summary{BenchmarkID: g.BenchmarkID, PointType: g.Point.PointType, BatchSize: g.Point.BatchSize, NewTokens: g.Point.TotalPrefillTokens,
		KVTokens: g.Point.TotalKVReadTokens, Mode: "unknown", WallTime: g.WallTime, Fastest: g.WallTime, Reasons: g.Point.SampleReasons}
	if s.PointType == Decode {
		s.NewTokens = s.BatchSize
	}
	for _, r := range g.RankResults {
		for _, f := range r.FPMs {
			s.Fastest = min(s.Fastest, f.WallTime)
			if f.WallTime == g.WallTime {
				s.observe(f.Measurement)
			}
		}
	}
	if g.WallTime > 0 {
		s.TokensPerSec = Float(float64(s.NewTokens) * float64(len(g.RankResults)) / float64(g.WallTime))
	}
	return s
}

// observe takes the evidence of the slowest rank.
func (s *Summary) observe(e *Evidence) {
	if e == nil || len(e.Raw) == 0 {
		return
	}
	s.Samples, s.Method = len(e.Raw), e.Estimate.Method
	at := len(e.Raw) - 1
	if i := slices.Max(append([]int{0}, e.Estimate.Indices...)); i <= at {
		at = i
	}
	if sample := e.Raw[at].Sample; sample != nil && sample.Cudagraph.RuntimeMode != nil {
		s.Mode = *sample.Cudagraph.RuntimeMode
	}
}

// Title describes a document's run in one line.
func (d *Document) Title() string { return title(d.head) }

// title describes the run of a document of which some members are decoded.
func title(head map[string]any) string {
	text := func(keys ...string) string {
		var v any = head
		for _, key := range keys {
			object, _ := v.(map[string]any)
			v = object[key]
		}
		if s, ok := v.(string); ok {
			return s
		}
		if v == nil {
			return "?"
		}
		return fmt.Sprint(v)
	}
	size := text("dp", "size")
	if documentType(head) == "merged" {
		size = text("dp", "global_size")
	}
	return fmt.Sprintf("%s on %s, mode %s, DP %s, %s, run %s", text("engine", "model", "model"), text("engine", "versions", "engine"),
		text("config", "mode"), size, text("status"), text("run_id"))
}
