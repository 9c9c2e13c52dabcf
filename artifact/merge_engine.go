package artifact

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// mergeEngines returns the one engine block of a merged document, or nil when no rank has one. Ranks whose
// capture failed are listed in capture_errors; ranks that disagree are an error.
func mergeEngines(docs []*Document) (map[string]any, []string, error) {
	engines := make([]map[string]any, len(docs))
	present, reference := false, -1
	failures := map[string]any{}
	for i, d := range docs {
		engine, ok := d.head["engine"].(map[string]any)
		engines[i] = engine
		present = present || ok
		cause, degraded := engine["capture_error"]
		switch {
		case !ok:
			failures[strconv.Itoa(d.rank())] = "missing engine block"
		case degraded:
			text, isText := cause.(string)
			if !isText {
				text = describe(cause)
			}
			failures[strconv.Itoa(d.rank())] = text
		case reference < 0:
			reference = i
		}
	}
	if !present {
		return nil, nil, nil
	}
	for i, d := range docs {
		if _, degraded := failures[strconv.Itoa(d.rank())]; degraded || i == reference {
			continue
		}
		if key := engineDifference(engines[reference], engines[i]); key != "" {
			return nil, nil, fmt.Errorf("artifact: engine provenance mismatch: %s (rank %d) in %s: %s against %s", key, docs[reference].rank(), d.label(),
				describe(engines[reference][key]), describe(engines[i][key]))
		}
	}
	merged := map[string]any{}
	switch {
	case reference >= 0:
		merged = maps.Clone(engines[reference])
	case engines[0] != nil:
		merged = maps.Clone(engines[0])
	}
	if parallel, ok := merged["parallel"].(map[string]any); ok {
		parallel = maps.Clone(parallel)
		parallel["data_parallel_rank"] = nil
		merged["parallel"] = parallel
	}
	if len(failures) == 0 {
		return merged, nil, nil
	}
	merged["capture_errors"] = failures
	ranks := slices.SortedFunc(maps.Keys(failures), func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return x - y
	})
	return merged, []string{"engine provenance is incomplete on ranks " + strings.Join(ranks, ", ")}, nil
}

// identity is an engine block without what the probe resolves and without the rank.
func identity(engine map[string]any) map[string]any {
	own := maps.Clone(engine)
	for _, key := range []string{"resolved", "resolution", "resolved_scope", "worker_probe"} {
		delete(own, key)
	}
	without := func(key string, drop ...string) {
		if object, ok := own[key].(map[string]any); ok {
			object = maps.Clone(object)
			for _, k := range drop {
				delete(object, k)
			}
			own[key] = object
		}
	}
	without("attention", "backend_resolved", "mla_prefill_backend_resolved", "resolution")
	without("parallel", "data_parallel_rank")
	return own
}

// engineDifference names the first top-level key in which two blocks differ, or "".
func engineDifference(a, b map[string]any) string {
	a, b = identity(a), identity(b)
	if equalTree(a, b) {
		return ""
	}
	all := map[string]bool{}
	for key := range a {
		all[key] = true
	}
	for key := range b {
		all[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !equalTree(a[key], b[key]) {
			return key
		}
	}
	return "<top-level key set>"
}
