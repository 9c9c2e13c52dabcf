package artifact

// Members of a record's blocks by type. What a step scheduled is compared with its point, as integers.
var (
	queuedIntegers = []string{"num_prefill_requests", "sum_prefill_tokens", "num_decode_requests", "sum_decode_kv_tokens"}
	recordFloats   = []string{"var_prefill_length", "var_decode_kv_tokens"}
)

// checkRecord checks the types of a retained record's members. One reader decodes records strictly, version 1 only, and drops those that do not fit without
// a word. A member that is absent has its zero value.
func checkRecord(n node) {
	if version := n.optional("version"); version.ok {
		version.is(1)
	}
	if worker := n.optional("worker_id"); worker.ok {
		worker.text()
	}
	for block, integers := range map[string][]string{"scheduled_requests": nil, "queued_requests": queuedIntegers} {
		counts := n.optional(block)
		if !counts.ok || !counts.object() {
			continue
		}
		for _, key := range integers {
			if v := counts.optional(key); v.ok {
				v.atLeast(0)
			}
		}
		for _, key := range recordFloats {
			if v := counts.optional(key); v.ok {
				v.float()
			}
		}
	}
}
