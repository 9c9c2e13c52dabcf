package artifact

import (
	"math"
	"slices"
)

// measurement checks the evidence of one retained record.
func (g *groupRules) measurement(n, retained node, id, rank int, key string, wall float64) {
	n.get("schema_version").is(1)
	n.get("dp_rank").is(rank)
	if got := n.get("point_key").text(); got != key {
		n.get("point_key").fail("measurement identity mismatch: the point's key is %s, got %s", key, got)
	}
	preparation := n.get("preparation")
	if got := preparation.get("grid_digest").text(); got != g.digest {
		preparation.get("grid_digest").fail("measurement identity mismatch: the document's is %s, got %s", g.digest, got)
	}
	if g.strict {
		checkPrompts(n.get("prompts"))
		if before := preparation.get("completed_points_before").atLeast(0); g.order != nil && before != g.order[id] {
			preparation.get("completed_points_before").fail("want the row's position %d, got %d", g.order[id], before)
		}
		preparation.get("kv_seed_regime").text()
	}
	raw := n.get("raw_fpms").list()
	expected := n.get("expected_internal_samples").atLeast(1)
	if len(raw) == 0 || len(raw) > expected {
		n.get("raw_fpms").fail("want 1 to %d records, got %d", expected, len(raw))
		return
	}
	walls := make([]float64, len(raw))
	first := -1
	for i, sample := range raw {
		var forward int
		walls[i], forward = g.raw(sample, retained, i, id, rank)
		if i == 0 {
			first = forward
		}
	}
	if g.contract && retained.optional("benchmark_sample").ok {
		retained.get("benchmark_sample").fail("only raw records carry it")
	}
	checkEstimate(n.get("estimate"), walls, expected, wall, g.strict)
	if g.contract {
		g.warmupReference(preparation, rank, first)
		g.warmupsAfter(preparation, rank, id)
	}
}

// raw checks one raw record and returns its wall time and forward index.
func (g *groupRules) raw(n, retained node, i, id, rank int) (float64, int) {
	n.get("counter_id").is(id)
	n.get("dp_rank").is(rank)
	if worker := n.get("worker_id"); worker.text() != retained.optional("worker_id").value {
		worker.fail("want the retained record's %s, got %s", describe(retained.optional("worker_id").value), describe(worker.value))
	}
	wall, _ := n.get("wall_time").float()
	if wall < 0 || g.strict && wall == 0 {
		n.get("wall_time").fail("want more than 0 seconds, got %v", wall)
	}
	for _, marker := range []string{"kvwarm_giant_median_of", "kvwarm_steady_sample"} {
		if n.optional(marker).ok {
			n.get(marker).fail("only the retained record carries it")
		}
	}
	sample := n.optional("benchmark_sample")
	if !g.contract {
		if sample.ok {
			sample.fail("no declared contract: measurement_protocol has no execution_evidence")
		}
		return wall, -1
	}
	if !sample.ok {
		n.get("benchmark_sample")
		return wall, -1
	}
	sample.get("sample_index").is(i)
	forward := sample.get("forward_index").atLeast(0)
	if last, ok := g.lastForward[rank]; ok && forward <= last {
		sample.get("forward_index").fail("%d after %d: must rise over the artifact", forward, last)
	}
	g.lastForward[rank] = forward
	if g.forwards[rank] == nil {
		g.forwards[rank] = map[int][]int{}
	}
	g.forwards[rank][id] = append(g.forwards[rank][id], forward)
	timing := sample.get("timing")
	timing.get("basis").oneOf(ScheduleToOutput, InterOutput)
	end, _ := timing.get("end_monotonic").float()
	if start := timing.get("start_monotonic"); !start.isNull() {
		from, _ := start.float()
		if !closeTo(end-from, wall, 1e-9, 1e-9) {
			timing.fail("end - start is %v, but wall_time is %v", end-from, wall)
		}
	}
	checkGraph(sample.get("cudagraph"), g.strict)
	return wall, forward
}

func checkGraph(n node, strict bool) {
	fields := []string{"runtime_mode", "num_unpadded_tokens", "num_padded_tokens", "num_paddings"}
	if n.get("status").oneOf("observed", "unavailable") != "observed" {
		for _, f := range fields {
			if !n.get(f).isNull() {
				n.get(f).fail("want null when unavailable, got %s", describe(n.get(f).value))
			}
		}
		return
	}
	if strict {
		n.get("runtime_mode").oneOf("NONE", "PIECEWISE", "FULL")
	} else if n.get("runtime_mode").text() == "" {
		n.get("runtime_mode").fail("want a mode")
	}
	unpadded := n.get("num_unpadded_tokens").atLeast(0)
	padded := n.get("num_padded_tokens").atLeast(unpadded)
	n.get("num_paddings").is(padded - unpadded)
}

// checkEstimate recomputes the retained number from the raw ones. Readers want all of the expected records for last_step; the merge takes
// the last of those that are there.
func checkEstimate(n node, walls []float64, expected int, retained float64, strict bool) {
	method := n.get("method").oneOf(SingleStep, LastStep, UpperMedian)
	indices := ints(n.get("raw_sample_indices"))
	last := len(walls) - 1
	var want []int
	switch method {
	case SingleStep:
		want = []int{0}
		if last != 0 {
			n.get("method").fail("single_step needs exactly one raw record, got %d", last+1)
		}
	case LastStep:
		want = []int{last}
		if expected < 2 || strict && expected != last+1 {
			n.get("method").fail("last_step needs all of at least two expected records, got %d of %d", last+1, expected)
		}
	case UpperMedian:
		for i := 1; i <= last; i++ {
			want = append(want, i)
		}
		if expected <= 2 || last < 1 {
			n.get("method").fail("adjacent_upper_median needs a steady record and more than two expected, got %d of %d", last+1, expected)
		}
	default:
		return
	}
	if !slices.Equal(indices, want) {
		n.get("raw_sample_indices").fail("want %v, got %v", want, indices)
		return
	}
	chosen := make([]float64, len(want))
	for i, j := range want {
		chosen[i] = walls[j]
	}
	slices.Sort(chosen)
	if len(chosen) > 0 && !closeTo(chosen[len(chosen)/2], retained, 1e-9, 1e-12) {
		n.fail("the chosen samples give %v, but the retained wall_time is %v", chosen[len(chosen)/2], retained)
	}
}

// checkPrompts recomputes the aggregate of recorded prompts.
func checkPrompts(n node) {
	status := n.get("status").oneOf("recorded", "unavailable")
	requests := n.get("requests").list()
	if status == "unavailable" {
		if len(requests) > 0 || !n.get("sha256").isNull() {
			n.fail("unavailable prompts have no hash and no requests")
		}
		return
	}
	if len(requests) == 0 {
		n.get("requests").fail("recorded prompts need an entry for each request")
	}
	entries := make([]PromptHash, len(requests))
	for i, r := range requests {
		r.get("slot").is(i)
		entries[i] = PromptHash{Slot: i, NumTokens: r.get("num_tokens").atLeast(1), SHA256: r.get("sha256").text()}
		if len(entries[i].SHA256) != 64 {
			r.get("sha256").fail("want 64 hexadecimal digits")
		}
	}
	if want, err := HashPrompts(entries); err != nil || n.get("sha256").text() != want {
		n.get("sha256").fail("the entries hash to %s", want)
	}
}

// warmupReference checks how many preparation records the measurement says came before it.
func (g *groupRules) warmupReference(preparation node, rank, firstForward int) {
	reference := preparation.get("warmup_records_before")
	records, loaded := g.ledgers[rank]
	if reference.isNull() {
		if loaded {
			reference.fail("warmup reference is invalid: the ledger is recorded, want a count")
		}
		return
	}
	n := reference.atLeast(0)
	if g.unavailable[rank] {
		reference.fail("warmup reference is invalid: the ledger is unavailable, want null")
	}
	if !loaded {
		return
	}
	if n > len(records) {
		reference.fail("warmup reference is invalid: %d records, but the ledger has %d", n, len(records))
		return
	}
	for i, r := range records[:n] {
		if r.running || firstForward >= 0 && r.end > firstForward {
			reference.fail("warmup reference overlaps measurement: record %d is not over before forward %d", i, firstForward)
		}
	}
	if !g.strict {
		return
	}
	before, _ := preparation.optional("completed_points_before").int()
	count := 0
	for _, r := range records {
		if r.before <= before {
			count++
		}
	}
	if n != count {
		reference.fail("want the %d records made before this point, got %d", count, n)
	}
}

// warmupsAfter checks that what was prepared after the point before this one also began after that point's last forward.
func (g *groupRules) warmupsAfter(preparation node, rank, id int) {
	before, _ := preparation.optional("completed_points_before").int()
	if !g.strict || g.order == nil || before < 1 || g.order[id] != before {
		return
	}
	if g.at == nil {
		g.at = make(map[int]int, len(g.order))
		for id, at := range g.order {
			g.at[at] = id
		}
	}
	forwards := g.forwards[rank][g.at[before-1]]
	if len(forwards) == 0 {
		return
	}
	last := forwards[len(forwards)-1]
	for i, r := range g.ledgers[rank] {
		if r.before == before && r.start >= 0 && r.start <= last {
			preparation.get("warmup_records_before").fail("record %d began at forward %d, but has %d completed points before it, of which the last ended with forward %d", i, r.start, before, last)
		}
	}
}

// closeTo is Python's math.isclose.
func closeTo(a, b, rel, abs float64) bool {
	return math.Abs(a-b) <= max(rel*max(math.Abs(a), math.Abs(b)), abs)
}
