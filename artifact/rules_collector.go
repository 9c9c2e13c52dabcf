package artifact

// Demand checks a rank's document for what collectors demand beyond the format: that the run is complete, and, unless mode is "", that it was of that
// mode. A decode run over spread experts then needs KV that was computed: synthetic KV routes tokens as no text does.
func (r *Report) Demand(mode string) {
	if r.Kind != "rank" || r.doc == nil {
		return
	}
	found := violations(r.Violations)
	doc := r.doc.member(&found)
	if status := doc.get("status"); status.value == "partial" {
		status.fail(`want "complete": collectors take no part of a run`)
	}
	if mode != "" {
		doc.get("config").get("mode").is(mode)
	}
	if mode == Decode && doc.optional("engine").optional("parallel").optional("enable_expert_parallel").value == true {
		warm := doc.get("kvwarm")
		for _, key := range []string{"enabled", "warm_eligible"} {
			if warm.ok && warm.optional(key).value != true {
				warm.get(key).fail("want true for decode with expert parallelism, got %s (skip_reason %s)", describe(warm.optional(key).value), describe(warm.optional("skip_reason").value))
			}
		}
	}
	r.Violations = found
}
