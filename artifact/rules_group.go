package artifact

import (
	"math"
	"slices"
)

// groupRules checks the iteration groups of a document one after the other and carries what a later group is
// checked against.
type groupRules struct {
	size     int    // DP ranks
	digest   string // grid_digest
	protocol bool   // the document has a measurement_protocol
	contract bool   // ... with execution evidence
	strict   bool   // also the readers' rules, not only the merge's
	mode     string // config.mode

	ledgers     map[int][]ledgerRecord // of the ranks whose ledger is loaded and recorded
	unavailable map[int]bool           // ranks whose loaded ledger is unavailable
	order       map[int]int            // benchmark_id -> position in results; nil when unknown
	at          map[int]int            // the other way round

	ids         map[int]bool
	lastForward map[int]int           // rank -> forward_index of its last sample
	forwards    map[int]map[int][]int // rank -> benchmark_id -> forward_index of its samples
	sum         float64               // of the groups' wall times
}

func newGroupRules(d *Document, strict bool, found *violations) *groupRules {
	doc := d.member(found)
	g := &groupRules{strict: strict, ids: map[int]bool{}, lastForward: map[int]int{}, forwards: map[int]map[int][]int{}, ledgers: map[int][]ledgerRecord{}, unavailable: map[int]bool{}}
	g.mode, _ = doc.get("config").optional("mode").value.(string)
	g.digest = doc.get("grid_digest").text()
	if protocol := doc.optional("measurement_protocol"); protocol.ok {
		g.protocol = protocol.object()
		protocol.get("schema_version").is(1)
		if evidence := protocol.optional("execution_evidence"); evidence.ok {
			g.contract = true
			checkContract(evidence, strict)
		}
	}
	return g
}

// checkContract checks the declared place of per-step evidence; readers want exactly its seven members.
func checkContract(n node, strict bool) {
	if !n.object() {
		return
	}
	n.get("schema_version").is(1)
	n.get("sample_field").is(executionContract.SampleField)
	n.get("warmup_field").is(executionContract.WarmupField)
	if strict {
		n.object("schema_version", "sample_field", "warmup_field", "forward_index_scope", "timing_clock", "cudagraph_source", "warmup_scope")
		n.get("forward_index_scope").is(executionContract.ForwardIndexScope)
		n.get("timing_clock").is(executionContract.TimingClock)
		n.get("cudagraph_source").is(executionContract.CudagraphSource)
		n.get("warmup_scope").is(executionContract.WarmupScope)
	}
}

// loadLedger takes in a rank's ledger for the checks of its measurements.
func (g *groupRules) loadLedger(rank int, n node) {
	if !g.contract {
		if n.ok {
			n.fail("no declared contract: measurement_protocol has no execution_evidence")
		}
		return
	}
	if !n.ok {
		n.fail("missing")
		return
	}
	records, recorded := checkLedger(n, g.strict)
	if recorded {
		g.ledgers[rank] = records
	} else {
		g.unavailable[rank] = true
	}
}

// group checks one entry of iteration_groups.
func (g *groupRules) group(n node) {
	if !n.object() {
		return
	}
	id := n.get("benchmark_id").atLeast(1)
	if g.ids[id] {
		n.get("benchmark_id").fail("%d stands in an earlier group too", id)
	}
	g.ids[id] = true
	point := n.get("point")
	point.get("benchmark_id").is(id)
	if g.strict {
		g.checkPoint(point)
	}
	key := g.key(point)
	want := make([]int, g.size)
	for i := range want {
		want[i] = i
	}
	if got := ints(n.get("expected_dp_ranks")); !slices.Equal(got, want) {
		n.get("expected_dp_ranks").fail("want %v, got %v", want, got)
	}
	n.get("complete").is(true)
	results := n.get("rank_results").list()
	if len(results) != g.size {
		n.get("rank_results").fail("want one entry for each of %d ranks, got %d", g.size, len(results))
		return
	}
	slowest := math.Inf(-1)
	for rank, result := range results {
		result.get("dp_rank").is(rank)
		fpms := result.get("fpms").list()
		if len(fpms) != 1 {
			result.get("fpms").fail("want exactly one record, got %d", len(fpms))
			continue
		}
		wall := g.fpm(fpms[0], point, id, rank, key)
		slowest = max(slowest, wall)
	}
	if wall, ok := n.get("wall_time").float(); ok {
		g.sum += wall
		if wall != slowest {
			n.get("wall_time").fail("want exactly the slowest rank's %v, got %v", slowest, wall)
		}
	}
}

// key recomputes the point_key from the point as it stands in the document.
func (g *groupRules) key(point node) string {
	value := func(name string, absent any) any {
		if v := point.optional(name); v.ok {
			return v.value
		}
		return absent
	}
	key, err := digest(map[string]any{
		"point_type": value("point_type", nil), "batch_size": value("batch_size", nil),
		"total_prefill_tokens": value("total_prefill_tokens", 0), "total_kv_read_tokens": value("total_kv_read_tokens", 0),
		"partition": value("partition", nil), "rows": value("rows", nil),
	})
	if err != nil {
		point.fail("has no point_key: %v", err)
	}
	return key
}

// checkPoint applies the readers' rules to a point.
func (g *groupRules) checkPoint(n node) {
	kind := n.get("point_type").oneOf(Prefill, Decode)
	if g.mode != "agg" && kind != g.mode {
		n.get("point_type").fail("%q in a run of mode %q", kind, g.mode)
	}
	batch := n.get("batch_size").atLeast(1)
	fresh := n.get("total_prefill_tokens").atLeast(0)
	kv := n.get("total_kv_read_tokens").atLeast(0)
	if kind == Prefill && fresh < batch {
		n.get("total_prefill_tokens").fail("want at least batch_size %d, got %d", batch, fresh)
	}
	if kind == Decode && (fresh != 0 || kv < batch) {
		n.fail("a decode point has no prefill tokens and at least batch_size %d KV tokens, got %d and %d", batch, fresh, kv)
	}
	mode := n.get("expected_cudagraph_mode").oneOf("NONE", "PIECEWISE", "FULL")
	size, padding := n.get("expected_capture_size"), n.get("padding_tokens")
	if mode != "NONE" {
		size.atLeast(1)
		padding.atLeast(0)
	}
	for _, reason := range n.get("sample_reasons").list() {
		reason.text()
	}
}

// fpm checks one retained record and returns its wall time.
func (g *groupRules) fpm(n, point node, id, rank int, key string) float64 {
	if !n.object() {
		return math.Inf(-1)
	}
	n.get("counter_id").is(id)
	n.get("dp_rank").is(rank)
	wall, _ := n.get("wall_time").float()
	if g.strict && wall <= 0 {
		n.get("wall_time").fail("want more than 0 seconds, got %v", wall)
	}
	if g.strict {
		checkScheduled(n.get("scheduled_requests"), point)
		checkRecord(n)
	}
	evidence := n.optional("benchmark_measurement")
	switch {
	case g.protocol:
		if !evidence.ok {
			evidence.fail("measurement evidence missing")
		} else if evidence.object() {
			g.measurement(evidence, n, id, rank, key, wall)
		}
	case evidence.ok:
		evidence.fail("measurement evidence has no shared protocol")
	}
	return wall
}

// checkScheduled compares what the step computed with the coordinate.
func checkScheduled(n, point node) {
	number := func(key string) int { v, _ := point.optional(key).int(); return v }
	want := map[string]int{"num_prefill_requests": 0, "sum_prefill_tokens": 0, "sum_prefill_kv_tokens": 0, "num_decode_requests": 0, "sum_decode_kv_tokens": 0}
	if point.optional("point_type").value == Prefill {
		want["num_prefill_requests"] = number("batch_size")
		want["sum_prefill_tokens"] = number("total_prefill_tokens")
		want["sum_prefill_kv_tokens"] = number("total_kv_read_tokens")
	} else {
		want["num_decode_requests"] = number("batch_size")
		want["sum_decode_kv_tokens"] = number("total_kv_read_tokens")
	}
	for _, key := range []string{"num_prefill_requests", "sum_prefill_tokens", "sum_prefill_kv_tokens", "num_decode_requests", "sum_decode_kv_tokens"} {
		if v := n.optional(key); v.ok || want[key] != 0 {
			n.get(key).is(want[key])
		}
	}
}

func ints(n node) []int {
	list := n.list()
	values := make([]int, len(list))
	for i, item := range list {
		values[i], _ = item.int()
	}
	return values
}
