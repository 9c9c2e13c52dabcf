package artifact

// ledgerRecord is what later rules need of a checked preparation record.
type ledgerRecord struct {
	running bool
	before  int // completed points before
	start   int // -1 when unobserved
	end     int // -1 while running
}

// checkLedger checks a preparation ledger and returns its records, or recorded false when there is none. strict adds the readers' rules
// to the merge's.
func checkLedger(n node, strict bool) (records []ledgerRecord, recorded bool) {
	if !n.object() {
		return nil, false
	}
	recorded = n.get("status").oneOf("recorded", "unavailable") == "recorded"
	list := n.get("records").list()
	if !recorded && len(list) > 0 {
		n.get("records").fail("an unavailable ledger has no records, got %d", len(list))
	}
	for i, item := range list {
		r := checkLedgerRecord(item)
		if strict {
			checkReadRecord(item, &r)
		}
		if strict && i > 0 && r.before < records[i-1].before {
			item.get("completed_points_before").fail("%d after %d: must not fall", r.before, records[i-1].before)
		}
		if strict && i > 0 && r.start >= 0 && r.start < records[i-1].start {
			item.get("forward_index_start").fail("%d after %d: must not fall", r.start, records[i-1].start)
		}
		records = append(records, r)
	}
	return records, recorded
}

// checkReadRecord applies the readers' rules to a record that the merge accepts.
func checkReadRecord(n node, r *ledgerRecord) {
	if !n.isObject() {
		return
	}
	kind := n.get("kind").oneOf(WarmupGlobal, WarmupEagerShape, WarmupRealPrefix, WarmupRealShape)
	status, _ := n.optional("status").value.(string)
	r.before = n.get("completed_points_before").atLeast(0)
	if kind == WarmupGlobal && r.before != 0 {
		n.get("completed_points_before").fail("the global warm-up comes before every point, got %d", r.before)
	}
	count := n.get("observed_forward_count")
	if start := n.get("forward_index_start"); start.isNull() && (kind != WarmupEagerShape || status != "failed" || count.atLeast(0) != 0) {
		start.fail("only a failed %s that ran nothing may lack it", WarmupEagerShape)
	}
	if r.running != (r.end < 0) {
		n.get("forward_index_end").fail("null exactly while running; status is %q", status)
	}
	for _, key := range []string{"first_scheduled_requests", "last_scheduled_requests"} {
		if v := n.get(key); !v.isNull() {
			v.object()
		}
	}
}

func checkLedgerRecord(n node) ledgerRecord {
	r := ledgerRecord{start: -1, end: -1}
	if !n.object() {
		return r
	}
	status := n.get("status").oneOf("running", "completed", "failed")
	r.running = status == "running"
	if start := n.optional("forward_index_start"); !start.isNull() {
		r.start = start.atLeast(0)
	}
	if end := n.optional("forward_index_end"); !end.isNull() {
		r.end = end.atLeast(0)
	}
	if status == "completed" && r.end < 0 {
		n.get("forward_index_end").fail("a completed record has an end")
	}
	if r.start >= 0 && r.end >= 0 && r.end < r.start {
		n.get("forward_index_end").fail("%d before forward_index_start %d", r.end, r.start)
	}
	if count := n.optional("observed_forward_count"); !count.isNull() {
		if got := count.atLeast(0); r.start >= 0 && r.end >= r.start && got != r.end-r.start {
			count.fail("want forward_index_end - forward_index_start = %d, got %d", r.end-r.start, got)
		}
	}
	validation := n.get("validation")
	switch validation.get("status").oneOf("not_performed", "passed", "failed") {
	case "passed":
		if status != "completed" {
			validation.fail("a passed validation needs status completed, got %q", status)
		}
	case "failed":
		if status != "failed" {
			validation.fail("a failed validation needs status failed, got %q", status)
		}
	}
	return r
}
