package artifact

import "slices"

// stamps maps a KV seed regime to the sample reason that must tell the same story.
var stamps = map[string]string{
	RegimeRealPrefix:   ReasonRealSeed,
	RegimeFakePrefix:   ReasonFakePrefix,
	RegimeRealKV:       ReasonRealKV,
	RegimeFakeFallback: ReasonFakeFallback,
}

// coordinate is what readers tell measurements apart by.
type coordinate struct {
	kind             string
	batch, fresh, kv int
}

// seenRow is a row at a coordinate that was met.
type seenRow struct {
	id      int
	regime  string
	labels  string // what else is said of the point
	clamped bool
}

// regimeRules checks how rows came by their KV, and that readers find one at each coordinate.
type regimeRules struct {
	warm node // kvwarm of the document
	rows map[coordinate][]seenRow
}

func (g *regimeRules) row(n node) {
	regime := n.get("kv_seed_regime").text()
	point := n.get("point")
	reasons := point.get("sample_reasons")
	list, _ := reasons.value.([]any)
	for of, stamp := range stamps {
		if slices.Contains(list, any(stamp)) != (of == regime) {
			reasons.fail("kv_seed_regime is %q; %s belongs to %q and to no other", regime, stamp, of)
		}
	}
	if fpms := n.get("fpms").list(); len(fpms) == 1 {
		if evidence := fpms[0].optional("benchmark_measurement"); evidence.ok {
			evidence.get("preparation").get("kv_seed_regime").is(regime)
		}
	}
	var silent violations // types are checked with the groups
	quiet := node{path: point.path, value: point.value, ok: point.ok, found: &silent}
	at := coordinate{}
	at.kind, _ = quiet.optional("point_type").value.(string)
	at.batch, _ = quiet.optional("batch_size").int()
	at.fresh, _ = quiet.optional("total_prefill_tokens").int()
	at.kv, _ = quiet.optional("total_kv_read_tokens").int()
	id, _ := quiet.optional("benchmark_id").int()
	g.phase(n.get("kv_seed_regime"), regime, at)
	g.once(point, at, seenRow{id, regime, labels(quiet), slices.Contains(list, any(ReasonContextClamped))})
}

// labels is what is said of a point beside its id and how it came by its KV.
func labels(point node) string {
	kept := map[string]any{}
	for _, key := range []string{"expected_cudagraph_mode", "expected_capture_size", "padding_tokens", "partition", "rows"} {
		kept[key] = point.optional(key).value
	}
	var reasons []any
	list, _ := point.optional("sample_reasons").value.([]any)
	for _, reason := range list {
		if reason != any(ReasonRealSeed) {
			reasons = append(reasons, reason)
		}
	}
	kept["sample_reasons"] = reasons
	text, err := encode(kept)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// phase checks that a regime fits the point that has it.
func (g *regimeRules) phase(n node, regime string, at coordinate) {
	switch regime {
	case RegimeRealPrefix, RegimeFakePrefix:
		if at.kind != Prefill {
			n.fail("%s is a regime of prefill points, this is a %s point", regime, at.kind)
		}
		if regime == RegimeFakePrefix && at.kv == 0 {
			n.fail("%s reads no KV tokens", regime)
		}
	case RegimeRealKV, RegimeFakeFallback:
		if at.kind != Decode {
			n.fail("%s is a regime of decode points, this is a %s point", regime, at.kind)
		}
		if regime == RegimeRealKV && (g.warm.optional("enabled").value != true || g.warm.optional("warm_eligible").value != true) {
			n.fail("%s needs a kvwarm block that is enabled and eligible", regime)
		}
	}
}

// once checks that no other row stands at the same coordinate: readers refuse two, but for those whose contexts were clamped, and for a prefill
// without KV that was also measured with real prefixes on and is otherwise labelled the same.
func (g *regimeRules) once(n node, at coordinate, row seenRow) {
	for _, other := range g.rows[at] {
		natural := at.kind == Prefill && at.kv == 0 && row.regime != other.regime && row.labels == other.labels &&
			slices.Contains([]string{row.regime, other.regime}, RegimeNotApplicable) && slices.Contains([]string{row.regime, other.regime}, RegimeRealPrefix)
		if !row.clamped && !other.clamped && !natural {
			n.fail("measures the coordinate of benchmark_id %d again (batch_size %d, total_prefill_tokens %d, total_kv_read_tokens %d); known readers refuse the document", other.id, at.batch, at.fresh, at.kv)
			return
		}
	}
	g.rows[at] = append(g.rows[at], row)
}
