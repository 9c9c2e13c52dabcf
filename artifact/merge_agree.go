package artifact

import (
	"encoding/json"
	"fmt"
)

// agree checks the presence and equality of what all ranks must share before groups are looked at.
func agree(docs []*Document) error {
	reference := docs[0]
	var found violations
	doc := reference.member(&found)
	for _, key := range []string{"run_id", "grid_digest"} {
		if doc.get(key).text() == "" {
			doc.get(key).fail("want a non-empty string")
		}
	}
	if protocol := doc.optional("measurement_protocol"); protocol.ok {
		if !protocol.object() || !protocol.get("schema_version").is(1) {
			found.add("$.measurement_protocol", "invalid measurement protocol")
		}
	}
	if err := violated(reference, found); err != nil {
		return err
	}
	for _, d := range docs[1:] {
		if !sameMember(reference, d, "measurement_protocol") {
			return fmt.Errorf("artifact: measurement protocol mismatch: %s has %s, %s has %s", reference.label(),
				shown(reference.members["measurement_protocol"]), d.label(), shown(d.members["measurement_protocol"]))
		}
		for _, key := range []string{"run_id", "grid_digest", "status", "coverage", "stop_reason"} {
			if !sameMember(reference, d, key) {
				return fmt.Errorf("artifact: %s differs: %s, started %s, has %s; %s, started %s, has %s", key,
					reference.label(), started(reference), shown(reference.members[key]), d.label(), started(d), shown(d.members[key]))
			}
		}
	}
	return nil
}

func sameMember(a, b *Document, key string) bool {
	x, y := a.members[key], b.members[key]
	if x == nil || y == nil {
		return x == nil && y == nil
	}
	return equalRaw(x, y)
}

func shown(raw json.RawMessage) string {
	if raw == nil {
		return "none"
	}
	return describe(raw)
}

func started(d *Document) string {
	timing, _ := d.head["timing"].(map[string]any)
	return describe(timing["started_at"])
}

// against checks a document's groups, results and timing against the reference's checked groups.
func (d *Document) against(reference *Document, rules *groupRules) violations {
	var found violations
	doc := d.member(&found)
	doc.get("dp").get("size").is(rules.size)
	if rank := d.rank(); rank >= rules.size {
		doc.get("dp").get("rank").fail("want a rank below the size %d, got %d", rules.size, rank)
		return found
	}
	if len(d.groups) != len(reference.groups) {
		found.add("$.iteration_groups", "%d groups, but %s has %d", len(d.groups), reference.label(), len(reference.groups))
		return found
	}
	for i := range d.groups {
		if !equalRaw(d.groups[i], reference.groups[i]) {
			found.add(fmt.Sprintf("$.iteration_groups[%d]", i), "differs from %s", reference.label())
		}
	}
	timing := doc.get("timing")
	timing.get("started_at").text()
	timing.get("completed_at").text()
	elapsed, _ := timing.get("benchmark_elapsed_seconds").float()
	measured, ok := timing.get("measured_iteration_seconds").float()
	if elapsed < 0 || measured > elapsed+1e-12 {
		timing.fail("measured_iteration_seconds %v exceed benchmark_elapsed_seconds %v", measured, elapsed)
	}
	if ok && !closeTo(measured, rules.sum, 1e-9, 1e-12) {
		timing.get("measured_iteration_seconds").fail("the groups' wall times add up to %v, got %v", rules.sum, measured)
	}
	d.localResults(&found)
	return found
}

// localResults checks that each row of results is this rank's entry in the group of the same id.
func (d *Document) localResults(found *violations) {
	texts, err := d.groupTexts()
	if err != nil {
		*found = append(*found, violationOf(err))
		return
	}
	groups := make(map[int]groupText, len(texts))
	for _, g := range texts {
		groups[g.id] = g
	}
	rank := d.rank()
	for i := range d.results {
		path := fmt.Sprintf("$.results[%d]", i)
		row, err := d.row(i)
		if err != nil {
			*found = append(*found, violationOf(err))
			continue
		}
		g, ok := groups[row.id]
		if !ok {
			found.add(path, "benchmark_id %d has no group, or stands in an earlier row", row.id)
			continue
		}
		delete(groups, row.id)
		if rank < 0 || rank >= len(g.fpms) {
			found.add(path, "the group of benchmark_id %d has no record of rank %d", row.id, rank)
			continue
		}
		if !equalRaw(row.point, g.point) {
			found.add(path+".point", "differs from the synchronized group's")
		}
		if !equalRaw(row.fpms, g.fpms[rank]) {
			found.add(path+".fpms[0]", "local result differs from synchronized group")
		}
	}
}
