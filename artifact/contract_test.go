package artifact

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Rules of the format by document: what the merge refuses, and what only the readers do. Every change is made in all rank documents of a run of
// two, so that they still agree.
func TestRulesOfMergeAndReaders(t *testing.T) {
	type doc = map[string]any
	group := func(d doc, i int) doc { return at(d, "iteration_groups", i) }
	fpm := func(d doc, i, rank int) doc { return at(group(d, i), "rank_results", rank, "fpms", 0) }
	measurement := func(d doc, i int) doc { return at(fpm(d, i, 0), "benchmark_measurement") }
	raw := func(d doc, i, k int) doc { return at(measurement(d, i)["raw_fpms"].([]any)[k]) }
	sample := func(d doc, i, k int) doc { return at(raw(d, i, k), "benchmark_sample") }
	graph := func(d doc) doc { return at(sample(d, 1, 0), "cudagraph") }
	record := func(d doc) doc { return at(d, "warmup_evidence", "records", 0) }
	n := func(text string) json.Number { return json.Number(text) }
	for _, c := range []struct {
		name   string
		change func(d doc)
		merge  string // part of the merge's error; empty: it accepts
		check  string // path of a violation that check reports; empty: none
	}{
		// 8.1 One file
		{"8.1 status unknown", func(d doc) { d["status"] = "running" }, "one of complete, partial, failed", "$.status"},
		{"8.1 status absent, valid", func(d doc) { delete(d, "status") }, "", "$.status"},
		{"8.1 status absent, not valid", func(d doc) { delete(d, "status"); d["valid"] = false }, "$.status: missing", "$.status"},
		{"8.1 coverage is no object", func(d doc) { d["coverage"] = 3 }, "$.coverage", "$.coverage"},
		{"8.1 coverage field missing", func(d doc) { delete(at(d, "coverage"), "skipped_points") }, "$.coverage.skipped_points: missing", "$.coverage.skipped_points"},
		{"8.1 coverage field negative", func(d doc) { at(d, "coverage")["skipped_points"] = n("-1") }, "at least 0", "$.coverage.skipped_points"},
		{"8.1 more completed than expected", func(d doc) { at(d, "coverage")["expected_points"] = n("2") }, "exceed the 2 expected", "$.coverage"},
		{"8.1 skipped list too short", func(d doc) { at(d, "coverage")["skipped_points"] = n("1") }, "0 entries, but coverage.skipped_points is 1", "$.skipped_points"},
		{"8.1 missing_phases is no list", func(d doc) { d["missing_phases"] = "none" }, "$.missing_phases", "$.missing_phases"},
		{"8.1 missing phases", func(d doc) { d["missing_phases"] = []any{"decode"} }, "phases without a point", "$.missing_phases"},
		{"8.1 results too short", func(d doc) { d["results"] = d["results"].([]any)[1:] }, "2 entries, but coverage.completed_points is 3", "$.results"},
		{"8.1 groups too short", func(d doc) { d["iteration_groups"] = d["iteration_groups"].([]any)[1:] }, "2 entries, but coverage.completed_points is 3", "$.iteration_groups"},
		{"8.1 complete, not valid", func(d doc) { d["valid"] = false }, "$.valid: want true", "$.valid"},
		{"8.1 complete, not usable", func(d doc) { d["usable"] = false }, "$.usable: want true", "$.usable"},
		{"8.1 complete, usable absent", func(d doc) { delete(d, "usable") }, "", "$.usable"},
		{"8.1 complete, stopped", func(d doc) { d["stop_reason"] = "timeout" }, "a complete run has none", "$.stop_reason"},
		{"8.1 complete, not all", func(d doc) { at(d, "coverage")["expected_points"] = n("4") }, "measures all of its 4 points", "$.coverage"},
		{"8.1 error", func(d doc) { d["error"] = "boom" }, "incomplete results: \"boom\"", "$.error"},
		{"8.1 partial, valid", func(d doc) {
			d["status"], d["stop_reason"], at(d, "coverage")["expected_points"] = "partial", "timeout", n("4")
		}, "$.valid: want false", "$.valid"},
		{"8.1 partial, not usable", func(d doc) {
			d["status"], d["stop_reason"], d["valid"], d["usable"], at(d, "coverage")["expected_points"] = "partial", "timeout", false, false, n("4")
		}, "$.usable: want true", "$.usable"},
		{"8.1 partial for another reason", func(d doc) {
			d["status"], d["stop_reason"], d["valid"], at(d, "coverage")["expected_points"] = "partial", "bored", false, n("4")
		}, "$.stop_reason: want \"timeout\"", "$.stop_reason"},
		{"8.1 partial with all points", func(d doc) { d["status"], d["stop_reason"], d["valid"] = "partial", "timeout", false }, "a partial run lacks points", "$.coverage"},
		{"8.1 partial", func(d doc) {
			d["status"], d["stop_reason"], d["valid"], at(d, "coverage")["expected_points"] = "partial", "timeout", false, n("4")
		}, "", ""},
		// 8.2 (1), (2), (3)
		{"8.2.1 run_id empty", func(d doc) { d["run_id"] = "" }, "$.run_id: want a non-empty string", "$.run_id"},
		{"8.2.1 grid_digest null", func(d doc) { d["grid_digest"] = nil }, "$.grid_digest", "$.grid_digest"},
		{"8.2.2 protocol is no object", func(d doc) { d["measurement_protocol"] = 1 }, "invalid measurement protocol", "$.measurement_protocol"},
		{"8.2.2 protocol of another version", func(d doc) { at(d, "measurement_protocol")["schema_version"] = n("2") }, "invalid measurement protocol", "$.measurement_protocol.schema_version"},
		{"8.2.3 contract is no object", func(d doc) { at(d, "measurement_protocol")["execution_evidence"] = 1 }, "execution_evidence", "$.measurement_protocol.execution_evidence"},
		{"8.2.3 contract of another field", func(d doc) {
			at(d, "measurement_protocol", "execution_evidence")["sample_field"] = "x"
		}, "sample_field", "$.measurement_protocol.execution_evidence.sample_field"},
		{"8.2.3 ledger without contract", func(d doc) { delete(at(d, "measurement_protocol"), "execution_evidence") }, "no declared contract", "$.warmup_evidence"},
		{"8.2.3 no ledger", func(d doc) { delete(d, "warmup_evidence") }, "$.warmup_evidence: missing", "$.warmup_evidence"},
		{"5 ledger unavailable with records", func(d doc) { at(d, "warmup_evidence")["status"] = "unavailable" }, "has no records", "$.warmup_evidence.records"},
		{"5 status of a record", func(d doc) { record(d)["status"] = "done" }, "running, completed, failed", "$.warmup_evidence.records[0].status"},
		{"5 completed without end", func(d doc) { record(d)["forward_index_end"] = nil }, "a completed record has an end", "$.warmup_evidence.records[0].forward_index_end"},
		{"5 end before start", func(d doc) { record(d)["forward_index_start"] = n("6") }, "before forward_index_start 6", "$.warmup_evidence.records[0].forward_index_end"},
		{"5 passed, failed", func(d doc) {
			record(d)["status"] = "failed"
			at(record(d), "validation")["status"] = "passed"
		}, "a passed validation needs status completed", "$.warmup_evidence.records[0].validation"},
		{"5 failed validation, completed", func(d doc) { at(record(d), "validation")["status"] = "failed" }, "a failed validation needs status failed", "$.warmup_evidence.records[0].validation"},
		{"8.2.3 count is a float", func(d doc) { record(d)["observed_forward_count"] = n("5.0") }, "want an integer", "$.warmup_evidence.records[0].observed_forward_count"},
		{"8.2.3 missing start and count", func(d doc) { delete(record(d), "forward_index_start"); delete(record(d), "observed_forward_count") }, "", "$.warmup_evidence.records[0].observed_forward_count"},
		{"8.2.3 unknown kind", func(d doc) { record(d)["kind"] = "other" }, "", "$.warmup_evidence.records[0].kind"},
		{"8.2.3 no completed_points_before", func(d doc) { delete(record(d), "completed_points_before") }, "", "$.warmup_evidence.records[0].completed_points_before"},
		{"13 global after points", func(d doc) { record(d)["completed_points_before"] = n("1") }, "", "$.warmup_evidence.records[0].completed_points_before"},
		// 8.2 (6), (7), (8)
		{"8.2.6 size", func(d doc) { at(d, "dp")["size"] = n("0") }, "at least 1", "$.dp.size"},
		{"8.2.7 id of another point", func(d doc) { at(group(d, 0), "point")["benchmark_id"] = n("9") }, "$.iteration_groups[0].point.benchmark_id", "$.iteration_groups[0].point.benchmark_id"},
		{"8.2.7 same id twice", func(d doc) { group(d, 1)["benchmark_id"] = n("1") }, "stands in an earlier group too", "$.iteration_groups[1].benchmark_id"},
		{"8.2.7 expected ranks", func(d doc) { group(d, 0)["expected_dp_ranks"] = []any{n("0")} }, "want [0 1], got [0]", "$.iteration_groups[0].expected_dp_ranks"},
		{"8.2.7 not complete", func(d doc) { group(d, 0)["complete"] = false }, "$.iteration_groups[0].complete", "$.iteration_groups[0].complete"},
		{"8.2.7 ranks in another order", func(d doc) { slices.Reverse(group(d, 0)["rank_results"].([]any)) }, "rank_results[0].dp_rank: want 0", "$.iteration_groups[0].rank_results[0].dp_rank"},
		{"8.2.7 rank missing", func(d doc) { group(d, 0)["rank_results"] = group(d, 0)["rank_results"].([]any)[:1] }, "want one entry for each of 2 ranks", "$.iteration_groups[0].rank_results"},
		{"8.2.7 two records", func(d doc) {
			at(group(d, 0), "rank_results", 0)["fpms"] = []any{fpm(d, 0, 0), fpm(d, 0, 0)}
		}, "exactly one record, got 2", "$.iteration_groups[0].rank_results[0].fpms"},
		{"8.2.7 counter", func(d doc) { fpm(d, 0, 1)["counter_id"] = n("2") }, "counter_id: want 1", "$.iteration_groups[0].rank_results[1].fpms[0].counter_id"},
		{"8.2.7 rank of a record", func(d doc) { fpm(d, 0, 1)["dp_rank"] = n("0") }, "dp_rank: want 1", "$.iteration_groups[0].rank_results[1].fpms[0].dp_rank"},
		{"8.2.7 version of the evidence", func(d doc) { measurement(d, 0)["schema_version"] = n("2") }, "benchmark_measurement.schema_version: want 1", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.schema_version"},
		{"8.2.7 rank of the evidence", func(d doc) { measurement(d, 0)["dp_rank"] = n("1") }, "benchmark_measurement.dp_rank: want 0", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.dp_rank"},
		{"8.2.7 grid of the evidence", func(d doc) { at(measurement(d, 0), "preparation")["grid_digest"] = "x" }, "measurement identity mismatch", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.preparation.grid_digest"},
		{"8.2.7 no raw records", func(d doc) { measurement(d, 0)["raw_fpms"] = []any{} }, "want 1 to 1 records, got 0", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.raw_fpms"},
		{"8.2.7 more raw records than expected", func(d doc) { measurement(d, 1)["expected_internal_samples"] = n("1") }, "want 1 to 1 records, got 2", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms"},
		{"8.2.7 sample on the retained record", func(d doc) { fpm(d, 0, 0)["benchmark_sample"] = sample(d, 0, 0) }, "only raw records carry it", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_sample"},
		{"8.2.7 worker of a raw record", func(d doc) { raw(d, 0, 0)["worker_id"] = "x" }, "worker_id: want the retained record's", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].worker_id"},
		{"8.2.7 counter of a raw record", func(d doc) { raw(d, 0, 0)["counter_id"] = true }, "raw_fpms[0].counter_id: want 1", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].counter_id"},
		{"8.2.7 position of a sample", func(d doc) { sample(d, 1, 1)["sample_index"] = n("0") }, "sample_index: want 1", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[1].benchmark_sample.sample_index"},
		{"8.2.7 basis", func(d doc) { at(sample(d, 0, 0), "timing")["basis"] = "wall" }, "one of schedule_to_output, inter_output", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].benchmark_sample.timing.basis"},
		{"8.2.7 no end", func(d doc) { at(sample(d, 0, 0), "timing")["end_monotonic"] = nil }, "want a number", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].benchmark_sample.timing.end_monotonic"},
		{"8.2.7 no start", func(d doc) { at(sample(d, 0, 0), "timing")["start_monotonic"] = nil }, "", ""},
		{"8.2.7 negative time", func(d doc) { raw(d, 1, 0)["wall_time"] = n("-1.0") }, "want more than 0 seconds", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].wall_time"},
		{"13 raw time of 0", func(d doc) {
			raw(d, 1, 0)["wall_time"], at(sample(d, 1, 0), "timing")["start_monotonic"] = n("0.0"), nil
		}, "", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].wall_time"},
		{"8.2.7 mode empty", func(d doc) { graph(d)["runtime_mode"] = "" }, "want a mode", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].benchmark_sample.cudagraph.runtime_mode"},
		{"13 mode of another name", func(d doc) { graph(d)["runtime_mode"] = "SOME" }, "", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].benchmark_sample.cudagraph.runtime_mode"},
		{"8.2.7 padded below unpadded", func(d doc) { graph(d)["num_padded_tokens"] = n("1") }, "at least 2", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].benchmark_sample.cudagraph.num_padded_tokens"},
		{"8.2.7 paddings", func(d doc) { graph(d)["num_paddings"] = n("1") }, "num_paddings: want 0", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].benchmark_sample.cudagraph.num_paddings"},
		{"8.2.7 unavailable with a mode", func(d doc) { graph(d)["status"] = "unavailable" }, "want null when unavailable", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[0].benchmark_sample.cudagraph.runtime_mode"},
		{"8.2.7 unavailable", func(d doc) {
			maps.Copy(graph(d), doc{"status": "unavailable", "runtime_mode": nil, "num_unpadded_tokens": nil, "num_padded_tokens": nil, "num_paddings": nil})
		}, "", ""},
		{"8.2.7 no indices", func(d doc) { at(measurement(d, 0), "estimate")["raw_sample_indices"] = []any{} }, "raw_sample_indices: want [0]", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.estimate.raw_sample_indices"},
		{"8.2.7 admission in last_step", func(d doc) { at(measurement(d, 1), "estimate")["raw_sample_indices"] = []any{n("0")} }, "raw_sample_indices: want [1]", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.estimate.raw_sample_indices"},
		{"8.2.7 single_step of two", func(d doc) { at(measurement(d, 1), "estimate")["method"] = SingleStep }, "needs exactly one raw record", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.estimate.method"},
		{"4.1 unknown method", func(d doc) { at(measurement(d, 1), "estimate")["method"] = "mean" }, "one of single_step", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.estimate.method"},
		{"13 last_step without all records", func(d doc) { measurement(d, 1)["expected_internal_samples"] = n("3") }, "", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.estimate.method"},
		{"4.1 median's mark on a raw record", func(d doc) { raw(d, 1, 1)["kvwarm_giant_median_of"] = n("1") }, "only the retained record carries it", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[1].kvwarm_giant_median_of"},
		{"4.1 steady mark on a raw record", func(d doc) { raw(d, 1, 1)["kvwarm_steady_sample"] = true }, "only the retained record carries it", "$.iteration_groups[1].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[1].kvwarm_steady_sample"},
		{"8.2.7 no warm-up reference", func(d doc) { at(measurement(d, 0), "preparation")["warmup_records_before"] = nil }, "warmup reference is invalid", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.preparation.warmup_records_before"},
		{"8.2.7 warm-up reference beyond the ledger", func(d doc) { at(measurement(d, 0), "preparation")["warmup_records_before"] = n("2") }, "2 records, but the ledger has 1", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.preparation.warmup_records_before"},
		{"13 warm-up reference below the ledger", func(d doc) { at(measurement(d, 0), "preparation")["warmup_records_before"] = n("0") }, "", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.preparation.warmup_records_before"},
		{"8.2.7 still running", func(d doc) {
			maps.Copy(record(d), doc{"status": "running", "forward_index_end": nil})
		}, "warmup reference overlaps measurement", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.preparation.warmup_records_before"},
		{"8.2.8 ids with a gap", func(d doc) {
			for _, f := range []doc{group(d, 2), at(group(d, 2), "point"), fpm(d, 2, 0), fpm(d, 2, 1)} {
				for _, key := range []string{"benchmark_id", "counter_id"} {
					if f[key] != nil {
						f[key] = n("4")
					}
				}
			}
		}, "benchmark_id 3 is missing of 1 to 3", "$.iteration_groups"},
		// 8.2 (9)
		{"8.2.9 times are no strings", func(d doc) { at(d, "timing")["started_at"] = 1 }, "$.timing.started_at: want a string", "$.timing.started_at"},
		{"8.2.9 negative elapsed", func(d doc) { at(d, "timing")["benchmark_elapsed_seconds"] = n("-1.0") }, "exceed benchmark_elapsed_seconds", "$.timing"},
		{"8.2.9 measured is not the sum", func(d doc) { at(d, "timing")["measured_iteration_seconds"] = n("0.01") }, "add up to", "$.timing.measured_iteration_seconds"},
		{"8.2.9 measured beyond elapsed", func(d doc) { at(d, "timing")["benchmark_elapsed_seconds"] = n("0.01") }, "exceed benchmark_elapsed_seconds", "$.timing"},
		{"8.2.9 row of an unknown point", func(d doc) { at(d, "results", 0, "point")["benchmark_id"] = n("7") }, "has no group", "$.results[0]"},
		{"8.2.9 row of another point", func(d doc) { at(d, "results", 0, "point")["batch_size"] = n("1") }, "differs from the synchronized group's", "$.results[0].point"},
		// 13 and the readers
		{"13 regime of row and measurement", func(d doc) { at(d, "results", 0)["kv_seed_regime"] = RegimeUnstamped }, "", "$.results[0].fpms[0].benchmark_measurement.preparation.kv_seed_regime"},
		{"13 prompts recorded without requests", func(d doc) { at(measurement(d, 0), "prompts")["requests"] = []any{} }, "", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.prompts.requests"},
		{"13 prompts unavailable with a hash", func(d doc) { at(measurement(d, 0), "prompts")["status"] = "unavailable" }, "", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.prompts"},
		{"4.1 prompts unavailable", func(d doc) {
			eachRecord(d, func(f doc) {
				at(f, "benchmark_measurement")["prompts"] = doc{"status": "unavailable", "sha256": nil, "requests": []any{}}
			})
		}, "", ""},
		{"5 no ledger was kept", func(d doc) {
			d["warmup_evidence"] = doc{"status": "unavailable", "records": []any{}}
			eachRecord(d, func(f doc) { at(f, "benchmark_measurement", "preparation")["warmup_records_before"] = nil })
		}, "", ""},
		{"5 no ledger was kept, but counted", func(d doc) { d["warmup_evidence"] = doc{"status": "unavailable", "records": []any{}} },
			"the ledger is unavailable, want null", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.preparation.warmup_records_before"},
		{"3.5 slots with a gap", func(d doc) { at(measurement(d, 0), "prompts", "requests", 1)["slot"] = n("2") }, "", "$.iteration_groups[0].rank_results[0].fpms[0].benchmark_measurement.prompts.requests[1].slot"},
	} {
		paths := written(t, run(t, 2))
		for rank, path := range paths {
			edit(t, path, func(d map[string]any) {
				c.change(d)
				// The rank's own rows follow its group entries, unless the change is in the rows.
				if strings.Contains(c.check, "iteration_groups") || c.check == "" {
					for i, row := range d["results"].([]any) {
						g := d["iteration_groups"].([]any)
						if i < len(g) {
							if list, ok := at(g[i])["rank_results"].([]any); ok && rank < len(list) {
								at(row)["point"], at(row)["fpms"] = at(g[i])["point"], at(list[rank])["fpms"]
							}
						}
					}
				}
			})
		}
		_, err := mergeFiles(t, paths)
		if c.merge == "" && err != nil || c.merge != "" && (err == nil || !strings.Contains(err.Error(), c.merge)) {
			t.Errorf("%s: merge: %v, want %q", c.name, err, c.merge)
		}
		r := CheckFiles(paths)[0]
		found := false
		for _, v := range r.Violations {
			found = found || v.Path == c.check
		}
		if c.check == "" && !r.Good() || c.check != "" && !found {
			t.Errorf("%s: check: %v, want a violation at %q", c.name, r.Violations, c.check)
		}
	}
}
