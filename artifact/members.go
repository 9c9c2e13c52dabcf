package artifact

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// members is a JSON object in its text, member by member. It is written in the documents' usual order, unknown
// members last.
type members map[string]json.RawMessage

// memberOrder is the order in which documents are written, for people; readers do not care.
var memberOrder = []string{
	"schema_version", "artifact_type", "status", "valid", "usable", "stop_reason", "timing_valid", "run_id", "grid_digest",
	"timing", "dp", "rank_files", "merged_output_path", "worker_probe_path", "synchronization", "coverage", "config", "limits",
	"measurement_policy", "synthetic_prompts", "capacity", "cudagraph", "recurrent_state", "measurement_protocol",
	"warmup_evidence", "rank_warmup_evidence", "kvwarm", "engine", "fpmrun", "results", "iteration_groups", "skipped_points",
	"missing_phases", "error",
}

// MarshalJSON implements json.Marshaler.
func (m members) MarshalJSON() ([]byte, error) { return m.pieces(nil).text(), nil }

// pieces is the object's text. long holds members that are in pieces themselves; m has the others.
func (m members) pieces(long map[string]pieces) pieces {
	keys := slices.AppendSeq(slices.Sorted(maps.Keys(m)), maps.Keys(long))
	place := func(key string) int {
		if i := slices.Index(memberOrder, key); i >= 0 {
			return i
		}
		return len(memberOrder)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Or(place(a)-place(b), cmp.Compare(a, b)) })
	p := pieces{[]byte("{")}
	for i, key := range keys {
		var name []byte
		if i > 0 {
			name = append(name, ',')
		}
		p = append(p, append(appendASCII(name, key), ':'))
		if value, ok := long[key]; ok {
			p = append(p, value...)
		} else {
			p = append(p, m[key])
		}
	}
	return append(p, []byte("}"))
}

// set encodes a member.
func (m members) set(key string, v any) error {
	text, err := encode(v)
	if err == nil {
		m[key] = text
	}
	return err
}
