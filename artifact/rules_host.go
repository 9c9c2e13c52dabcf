package artifact

import "slices"

// own is the decoded project's own evidence; a node that does not exist where there is none.
func (d *Document) own(found *violations) node {
	raw := d.members["fpmrun"]
	if raw == nil {
		return node{path: "$.fpmrun", found: found}
	}
	tree, err := decodeTree(raw)
	if err != nil {
		found.add("$.fpmrun", "%v", err)
		return node{path: "$.fpmrun", found: found}
	}
	return node{path: "$.fpmrun", value: tree, ok: true, found: found}
}

// checkHost checks the evidence of host and process that a rank keeps under "fpmrun": it belongs to the rank's measurements, and no collector cycle ran in a
// timed step.
func (g *groupRules) checkHost(own node, rank int) {
	if !own.isObject() || !own.optional("points").ok {
		return
	}
	seen := map[int]bool{}
	for _, point := range own.get("points").list() {
		if !point.object() {
			continue
		}
		id := point.get("benchmark_id").atLeast(1)
		forwards, measured := g.forwards[rank][id]
		if seen[id] || !measured {
			point.get("benchmark_id").fail("%d is no measured point, or stands in an earlier entry too", id)
			continue
		}
		seen[id] = true
		steps := point.get("steps").list()
		indices := make([]int, len(steps))
		for i, step := range steps {
			indices[i], _ = step.get("forward_index").int()
			for _, count := range []string{"minor_page_faults", "major_page_faults", "voluntary_context_switches", "involuntary_context_switches"} {
				step.get(count).atLeast(0)
			}
			if cycles := step.get("collector_cycles"); cycles.atLeast(0) > 0 {
				cycles.fail("the Go collector ran inside a timed step; its time is in the sample")
			}
		}
		if len(steps) > 0 && !slices.Equal(indices, forwards) {
			point.get("steps").fail("want the forwards %v of the point's raw samples, got %v", forwards, indices)
		}
		point.get("before").object()
		point.get("after").object()
	}
}
