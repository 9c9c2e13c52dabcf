package artifact

import "fmt"

// Rules of one rank document by itself: the merge's validity checks, and the stricter ones of the known readers
// where strict is set.

// rankEnvelope checks everything but the lists' contents.
func (d *Document) rankEnvelope(strict bool) violations {
	var found violations
	doc := d.member(&found)
	doc.get("schema_version").is(SchemaVersion)
	if strict {
		doc.get("artifact_type").is("rank")
	}
	status := "complete" // the merge's default for a valid document without one
	if n := doc.optional("status"); n.ok || strict || doc.optional("valid").value != true {
		status = doc.get("status").oneOf("complete", "partial", "failed")
	}
	if status == "failed" {
		doc.get("status").fail("incomplete results: the run failed: %s", describe(doc.optional("error").value))
	}
	coverage := doc.get("coverage")
	coverage.object()
	expected := coverage.get("expected_points").atLeast(0)
	completed := coverage.get("completed_points").atLeast(0)
	skipped := coverage.get("skipped_points").atLeast(0)
	if completed+skipped > expected {
		coverage.fail("%d completed and %d skipped points exceed the %d expected", completed, skipped, expected)
	}
	if n := len(doc.get("skipped_points").list()); n != skipped {
		doc.get("skipped_points").fail("%d entries, but coverage.skipped_points is %d", n, skipped)
	}
	if skipped > 0 {
		doc.get("skipped_points").fail("incomplete results: skipped points: %s", describe(doc.get("skipped_points").value))
	}
	d.countLists(completed, &found)
	missing := len(doc.get("missing_phases").list())
	if missing > 0 {
		doc.get("missing_phases").fail("incomplete results: phases without a point: %s", describe(doc.get("missing_phases").value))
	}
	if !doc.optional("error").isNull() {
		doc.get("error").fail("incomplete results: %s", describe(doc.get("error").value))
	}
	if usable := doc.optional("usable"); usable.ok || strict || status == "partial" {
		doc.get("usable").is(true)
	}
	switch status {
	case "complete":
		doc.get("valid").is(true)
		if !doc.optional("stop_reason").isNull() {
			doc.get("stop_reason").fail("a complete run has none, got %s", describe(doc.get("stop_reason").value))
		}
		if completed != expected {
			coverage.fail("a complete run measures all of its %d points, got %d", expected, completed)
		}
	case "partial":
		doc.get("valid").is(false)
		doc.get("stop_reason").is("timeout")
		if completed >= expected {
			coverage.fail("a partial run lacks points, but %d of %d are there", completed, expected)
		}
	}
	if strict {
		doc.get("timing_valid").is(true)
		d.strictEnvelope(doc, expected)
	}
	return found
}

func (d *Document) countLists(completed int, found *violations) {
	for _, list := range []struct {
		name string
		n    int
	}{{"results", len(d.results)}, {"iteration_groups", len(d.groups)}} {
		if d.members[list.name] == nil {
			found.add("$."+list.name, "missing")
		} else if list.n != completed {
			found.add("$."+list.name, "%d entries, but coverage.completed_points is %d", list.n, completed)
		}
	}
}

// strictEnvelope is what the readers want beyond the merge.
func (d *Document) strictEnvelope(doc node, expected int) {
	if expected == 0 {
		doc.get("coverage").get("expected_points").fail("want at least 1 point")
	}
	doc.get("config").get("mode").oneOf("prefill", "decode", "agg")
	for _, key := range []string{"run_id", "grid_digest"} {
		if doc.get(key).text() == "" {
			doc.get(key).fail("want a non-empty string")
		}
	}
	timing := doc.get("timing")
	timing.get("started_at").text()
	timing.get("completed_at").text()
	elapsed, _ := timing.get("benchmark_elapsed_seconds").float()
	measured, _ := timing.get("measured_iteration_seconds").float()
	if elapsed < 0 || measured < 0 || measured > elapsed+1e-12 {
		timing.fail("want 0 <= measured_iteration_seconds <= benchmark_elapsed_seconds, got %v and %v", measured, elapsed)
	}
	for _, key := range []string{"limits", "cudagraph", "recurrent_state", "config"} {
		if block := doc.get(key); block.object() && len(block.value.(map[string]any)) == 0 {
			block.fail("empty: readers cannot tell what was compared")
		}
	}
	if engine := doc.optional("engine"); engine.isObject() {
		if !engine.optional("capture_error").ok {
			engine.get("scheduler").get("async_scheduling").bool()
		}
	}
	d.kvWarm(doc)
}

// kvWarm checks that a warm-up block that says ineligible also says why.
func (d *Document) kvWarm(doc node) {
	warm := doc.optional("kvwarm")
	if !warm.ok || !warm.object() {
		return
	}
	enabled, eligible := warm.get("enabled").bool(), false
	if said := warm.optional("warm_eligible"); !said.isNull() {
		if eligible = said.bool(); !eligible {
			enabled = true // whether or not it is: what is said to be ineligible needs a reason
		}
	}
	reason := warm.optional("skip_reason")
	if enabled && !eligible && (reason.isNull() || reason.text() == "") {
		warm.fail("a warm-up that is not eligible needs a skip_reason")
	}
	if eligible && !reason.isNull() {
		warm.get("skip_reason").fail("an eligible warm-up has none, got %s", describe(reason.value))
	}
}

// label names a document in messages about several.
func (d *Document) label() string {
	dp, _ := d.head["dp"].(map[string]any)
	return fmt.Sprintf("rank %v (%s)", dp["rank"], d.Path)
}
