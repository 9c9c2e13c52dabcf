package artifact

import (
	"bytes"
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
func (m members) MarshalJSON() ([]byte, error) {
	keys := slices.Sorted(maps.Keys(m))
	place := func(key string) int {
		if i := slices.Index(memberOrder, key); i >= 0 {
			return i
		}
		return len(memberOrder)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return place(a) - place(b) })
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(appendASCII(nil, key))
		b.WriteByte(':')
		b.Write(m[key])
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// set encodes a member.
func (m members) set(key string, v any) error {
	text, err := encode(v)
	if err == nil {
		m[key] = text
	}
	return err
}

// join writes elements as a JSON list.
func join(elements []json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e...)
	}
	return append(b, ']')
}
