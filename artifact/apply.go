package artifact

import (
	"encoding/json"
	"fmt"
)

// HasEngine reports whether the document has an engine block, for which a worker probe makes sense.
func (m *Merged) HasEngine() bool { return m.members["engine"] != nil }

// WithProbe is the merged document with what the worker probe resolved in its engine block, as it is served from memory; the document
// itself and files are left as they are. Without an engine block there is nothing to resolve.
func (m *Merged) WithProbe(v View) (*Merged, error) {
	out := &Merged{Warnings: m.Warnings, members: members{}, results: m.results}
	for key, raw := range m.members {
		out.members[key] = raw
	}
	if !m.HasEngine() {
		return out, nil
	}
	engine := members{}
	if err := json.Unmarshal(m.members["engine"], &engine); err != nil {
		return nil, fmt.Errorf("artifact: engine of the merged document: %w", err)
	}
	sets := map[string]any{"resolved": v.Resolved, "resolved_scope": v.ResolvedScope, "resolution": v.Resolution, "worker_probe": v.WorkerProbe}
	if v.Attention != nil {
		attention := members{}
		if err := json.Unmarshal(engine["attention"], &attention); err != nil {
			return nil, fmt.Errorf("artifact: engine.attention of the merged document: %w", err)
		}
		for key, value := range map[string]any{
			"backend_resolved": v.Attention.BackendResolved, "mla_prefill_backend_resolved": v.Attention.MLAPrefillBackendResolved, "resolution": v.Attention.Resolution,
		} {
			if err := attention.set(key, value); err != nil {
				return nil, err
			}
		}
		sets["attention"] = attention
	}
	for key, value := range sets {
		if err := engine.set(key, value); err != nil {
			return nil, err
		}
	}
	return out, out.members.set("engine", engine)
}
