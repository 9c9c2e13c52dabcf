package artifact

// ledgerRecord is what later rules need of a checked preparation record.
type ledgerRecord struct {
	running bool
	before  int // completed points before
	start   int // -1 when unobserved
	end     int // -1 while running
}

// checkLedger checks a preparation ledger and returns its records, or recorded false when there is none.
func checkLedger(n node) (records []ledgerRecord, recorded bool) {
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
		if i > 0 && r.before < records[i-1].before {
			item.get("completed_points_before").fail("%d after %d: must not fall", r.before, records[i-1].before)
		}
		if i > 0 && r.start >= 0 && r.start < records[i-1].start {
			item.get("forward_index_start").fail("%d after %d: must not fall", r.start, records[i-1].start)
		}
		records = append(records, r)
	}
	return records, recorded
}

func checkLedgerRecord(n node) ledgerRecord {
	r := ledgerRecord{start: -1, end: -1}
	if !n.object() {
		return r
	}
	kind := n.get("kind").oneOf(WarmupGlobal, WarmupEagerShape, WarmupRealPrefix, WarmupRealShape)
	status := n.get("status").oneOf("running", "completed", "failed")
	r.running = status == "running"
	r.before = n.get("completed_points_before").atLeast(0)
	if kind == WarmupGlobal && r.before != 0 {
		n.get("completed_points_before").fail("the global warm-up comes before every point, got %d", r.before)
	}
	if start := n.get("forward_index_start"); !start.isNull() {
		r.start = start.atLeast(0)
	} else if kind != WarmupEagerShape || status != "failed" {
		start.fail("only a failed %s may lack it", WarmupEagerShape)
	}
	if end := n.get("forward_index_end"); !end.isNull() {
		r.end = end.atLeast(0)
	}
	if r.running != (r.end < 0) {
		n.get("forward_index_end").fail("null exactly while running; status is %q", status)
	}
	count := n.get("observed_forward_count").atLeast(0)
	if r.start >= 0 && r.end >= 0 && (r.end < r.start || count != r.end-r.start) {
		n.get("observed_forward_count").fail("want forward_index_end - forward_index_start = %d, got %d", r.end-r.start, count)
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
