package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// Merged is a merged document in its text.
type Merged struct {
	Warnings []string // degraded ranks
	members  members  // all but the results
	results  pieces
}

// MarshalJSON implements json.Marshaler.
func (m *Merged) MarshalJSON() ([]byte, error) { return m.pieces().text(), nil }

func (m *Merged) pieces() pieces { return m.members.pieces(map[string]pieces{"results": m.results}) }

// Merge joins the documents of one run's DP ranks. They may come in any order; ranks that are not among them are
// taken from the synchronized groups and listed as not loaded. Any document that breaks a rule, and any
// disagreement between two, is an error and nothing is merged. outputPath is where the result will be written.
func Merge(docs []*Document, outputPath string) (*Merged, error) {
	docs, err := byRank(docs)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if err := errors.Join(violated(d, d.rankEnvelope(false)), d.measured()); err != nil {
			return nil, err
		}
	}
	reference := docs[0]
	if err := agree(docs); err != nil {
		return nil, err
	}
	var found violations
	rules := newGroupRules(reference, false, &found)
	rules.size = reference.dpSize(&found)
	for _, d := range docs {
		var ledger violations
		rules.loadLedger(d.rank(), d.member(&ledger).optional("warmup_evidence"))
		if err := violated(d, ledger); err != nil {
			return nil, err
		}
	}
	if len(reference.groups) == 0 {
		found.add("$.iteration_groups", "want at least one group")
	}
	rules.groups(reference, &found)
	if err := violated(reference, found); err != nil {
		return nil, err
	}
	against := make([]violations, len(docs))
	var all sync.WaitGroup
	for i, d := range docs {
		all.Go(func() { against[i] = d.against(reference, rules) })
	}
	all.Wait()
	for i, d := range docs {
		if err := violated(d, against[i]); err != nil {
			return nil, err
		}
	}
	return build(docs, rules, outputPath)
}

// byRank sorts documents and refuses two of the same rank.
func byRank(docs []*Document) ([]*Document, error) {
	if len(docs) == 0 {
		return nil, errors.New("artifact: nothing to merge")
	}
	docs = slices.Clone(docs)
	for _, d := range docs {
		if kind := d.Type(); kind != "" && kind != "rank" {
			return nil, fmt.Errorf("artifact: %q is a %s document, want rank documents", d.Path, kind)
		}
		var found violations
		d.member(&found).get("dp").get("rank").atLeast(0)
		if err := violated(d, found); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(docs, func(a, b *Document) int { return a.rank() - b.rank() })
	for i := 1; i < len(docs); i++ {
		if docs[i].rank() == docs[i-1].rank() {
			return nil, fmt.Errorf("artifact: duplicate rank %d: %q and %q", docs[i].rank(), docs[i-1].Path, docs[i].Path)
		}
	}
	return docs, nil
}

// violated turns what was found in a document into an error, at most ten places of it.
func violated(d *Document, found violations) error {
	if len(found) == 0 {
		return nil
	}
	errs := []error{fmt.Errorf("artifact: %s cannot be merged", d.label())}
	for i, v := range found {
		if i == 10 {
			errs = append(errs, fmt.Errorf("and %d more", len(found)-i))
			break
		}
		errs = append(errs, errors.New(v.String()))
	}
	return errors.Join(errs...)
}

func (d *Document) rank() int {
	var ignored violations
	rank, _ := d.member(&ignored).get("dp").get("rank").int()
	return rank
}

func (d *Document) dpSize(found *violations) int {
	return d.member(found).get("dp").get("size").atLeast(1)
}

// build assembles the merged document.
func build(docs []*Document, rules *groupRules, outputPath string) (*Merged, error) {
	reference := docs[0]
	m := &Merged{members: members{}}
	for key, raw := range reference.members {
		m.members[key] = raw
	}
	engine, warnings, err := mergeEngines(docs)
	if err != nil {
		return nil, err
	}
	m.Warnings = warnings
	files, ranks, all := make([]string, len(docs)), make([]int, len(docs)), make([]int, rules.size)
	for i, d := range docs {
		files[i], ranks[i] = d.Path, d.rank()
	}
	for i := range all {
		all[i] = i
	}
	sets := map[string]any{
		"artifact_type":      "merged",
		"dp":                 map[string]any{"ranks": all, "source_ranks": ranks, "managed_size": len(docs), "global_size": rules.size},
		"rank_files":         files,
		"merged_output_path": outputPath,
		"timing":             mergeTiming(docs, rules.sum),
		"coverage":           mergeCoverage(reference, rules.size),
	}
	if engine != nil {
		sets["engine"] = engine
		sets["worker_probe_path"] = SidecarPath(outputPath)
	}
	if rules.contract {
		delete(m.members, "warmup_evidence")
		sets["rank_warmup_evidence"] = mergeLedgers(docs, rules.size)
	}
	if own := mergeOwn(docs); len(own) > 0 {
		sets["fpmrun"] = own
	}
	for key, v := range sets {
		if err := m.members.set(key, v); err != nil {
			return nil, err
		}
	}
	delete(m.members, "results")
	groups, err := reference.groupTexts()
	if err != nil {
		return nil, err
	}
	regimes, err := seedRegimes(docs)
	if err != nil {
		return nil, err
	}
	m.results = joined(flatten(groups, regimes))
	return m, nil
}

// mergeTiming is the slowest rank's block with the group's sums.
func mergeTiming(docs []*Document, sum float64) map[string]any {
	seconds := map[string]any{}
	var slowest map[string]any
	most := -1.0
	for _, d := range docs {
		timing, _ := d.head["timing"].(map[string]any)
		number, _ := timing["benchmark_elapsed_seconds"].(json.Number)
		elapsed, _ := number.Float64()
		seconds[strconv.Itoa(d.rank())] = number
		if elapsed > most {
			most, slowest = elapsed, timing
		}
	}
	merged := map[string]any{}
	for key, v := range slowest {
		merged[key] = v
	}
	merged["measured_iteration_seconds"] = Float(sum)
	merged["rank_benchmark_elapsed_seconds"] = seconds
	return merged
}

func mergeCoverage(reference *Document, size int) map[string]any {
	coverage, _ := reference.head["coverage"].(map[string]any)
	merged := map[string]any{}
	for key, v := range coverage {
		merged[key] = v
		if number, ok := v.(json.Number); ok {
			if n, err := number.Int64(); err == nil {
				merged[key] = n * int64(size)
			}
		}
	}
	return merged
}

func mergeLedgers(docs []*Document, size int) map[string]any {
	ledgers := map[string]any{}
	for rank := range size {
		ledgers[strconv.Itoa(rank)] = Ledger{Status: "unavailable", Records: []LedgerRecord{}, Reason: "rank_artifact_not_loaded"}
	}
	for _, d := range docs {
		ledgers[strconv.Itoa(d.rank())] = d.members["warmup_evidence"]
	}
	return ledgers
}

// mergeOwn keeps each rank's own evidence apart.
func mergeOwn(docs []*Document) map[string]json.RawMessage {
	own := map[string]json.RawMessage{}
	for _, d := range docs {
		if raw := d.members["fpmrun"]; raw != nil {
			own[strconv.Itoa(d.rank())] = raw
		}
	}
	return own
}
