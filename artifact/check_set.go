package artifact

import "fmt"

// checkSet checks rank documents of one run against each other.
func checkSet(reports []*Report) {
	docs := make([]*Document, len(reports))
	for i, r := range reports {
		docs[i] = r.doc
	}
	first := reports[0]
	fail := func(r *Report, format string, args ...any) {
		r.Violations = append(r.Violations, Violation{Path: "$", Message: fmt.Sprintf(format, args...)})
	}
	sorted, err := byRank(docs)
	if err == nil {
		err = agree(sorted)
	}
	if err == nil {
		_, _, err = mergeEngines(sorted)
	}
	if err != nil {
		fail(first, "%v", err)
		return
	}
	var found violations
	size := sorted[0].dpSize(&found)
	for rank := range size {
		if rank >= len(sorted) || sorted[rank].rank() != rank {
			fail(first, "rank %d of %d is not among the files", rank, size)
			return
		}
	}
	rules := newGroupRules(sorted[0], false, &found)
	rules.size = size
	rules.groups(sorted[0], &found)
	for _, r := range reports {
		r.Violations = append(r.Violations, r.doc.preparedAs(sorted[0])...)
		r.Violations = append(r.Violations, r.doc.against(sorted[0], rules)...)
	}
}

// preparedAs checks that a rank's points had their KV as those of another rank of the run had it; the merge does not ask for that, readers do.
func (d *Document) preparedAs(reference *Document) violations {
	var found, silent violations // types are checked in each document by itself
	mine, theirs := d.member(&found).optional("kvwarm"), reference.member(&silent).optional("kvwarm")
	if mine.ok != theirs.ok {
		mine.fail("present here or in %s, but not in both", reference.label())
	}
	for _, key := range []string{"enabled", "warm_eligible", "skip_reason"} {
		if a, b := mine.optional(key), theirs.optional(key); mine.ok && theirs.ok && a.value != b.value {
			a.fail("%s, but %s has %s", describe(a.value), reference.label(), describe(b.value))
		}
	}
	regimes := map[int]string{}
	for i := range reference.results {
		if row, err := reference.row(i); err == nil {
			regimes[row.id] = string(row.regime)
		}
	}
	for i := range d.results {
		row, err := d.row(i)
		if regime, ok := regimes[row.id]; err == nil && ok && regime != string(row.regime) {
			found.add(fmt.Sprintf("$.results[%d].kv_seed_regime", i), "%s, but %s has %s", row.regime, reference.label(), regime)
		}
	}
	return found
}
