package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Report is what a check found in one file.
type Report struct {
	Path       string
	Kind       string // rank, merged, sidecar, journal, repeat, or "" when it could not be told
	Note       string // what else is worth saying of a file, good or not
	NotReady   bool   // missing, empty or cut short: a writer may still be at work
	Violations []Violation
	Diagnostic bool // of a diagnostic run: good by itself, but no measurement

	doc *Document
}

// Good reports whether nothing is wrong with the file.
func (r *Report) Good() bool { return !r.NotReady && len(r.Violations) == 0 }

// CheckFiles checks rank, merged and sidecar documents and journals one by one, and rank documents given together also against
// each other. The rules are the union of the merge's and those of the known readers.
func CheckFiles(paths []string) []Report {
	reports := make([]Report, len(paths))
	var ranks []*Report
	for i, path := range paths {
		reports[i] = checkFile(path)
		if r := &reports[i]; r.Kind == "rank" && r.Good() {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) > 1 {
		checkSet(ranks)
	}
	return reports
}

func checkFile(path string) (r Report) {
	if IsJournal(path) {
		return checkJournal(path)
	}
	r = Report{Path: path}
	doc, err := ReadDocument(path)
	if err != nil {
		r.NotReady = errors.Is(err, ErrNotReady)
		r.Violations = []Violation{violationOf(err)}
		return r
	}
	r.doc = doc
	defer func() { r.checkName() }()
	switch kind := doc.Type(); kind {
	case "rank":
		r.Kind, r.Violations = "rank", doc.checkRank()
		r.Diagnostic = errors.Is(doc.measured(), ErrDiagnostic)
	case "merged":
		r.Kind, r.Violations = "merged", doc.checkMerged()
	case SidecarSchema:
		r.Kind, r.Violations = "sidecar", doc.checkSidecar()
	case RepeatSchema:
		r.Kind, r.Violations = "repeat", doc.checkRepeat()
	default:
		r.Violations = []Violation{{Path: "$.artifact_type", Message: fmt.Sprintf("want rank or merged, or schema %s; got %q", SidecarSchema, kind)}}
	}
	return r
}

// violationOf is an error about a file as a violation, at its place if it has one.
func violationOf(err error) Violation {
	var place *JSONError
	if errors.As(err, &place) {
		return Violation{Path: place.Path, Message: place.at()}
	}
	return Violation{Path: "$", Message: err.Error()}
}

// checkRank applies every rule to one rank document.
func (d *Document) checkRank() []Violation {
	found := d.rankEnvelope(true)
	rules := newGroupRules(d, true, &found)
	rules.size = d.dpSize(&found)
	rank := d.member(&found).get("dp").get("rank")
	if n := rank.atLeast(0); n < 0 || n >= rules.size {
		rank.fail("want a rank below the size %d", rules.size)
		return found
	}
	rules.loadLedger(d.rank(), d.member(&found).optional("warmup_evidence"))
	rules.order = d.resultOrder(&found)
	rules.groups(d, &found)
	rules.checkHost(d.own(&found), d.rank())
	return append(found, d.against(d, rules)...)
}

// groups checks all groups of a document and that their ids are 1 to n.
func (g *groupRules) groups(d *Document, found *violations) {
	i := 0
	for tree, err := range decodeAll(d.groups) {
		path := fmt.Sprintf("$.iteration_groups[%d]", i)
		i++
		if err != nil {
			found.add(path, "%v", err)
			continue
		}
		g.group(node{path: path, value: tree, ok: true, found: found})
	}
	for id := 1; id <= len(d.groups); id++ {
		if !g.ids[id] {
			found.add("$.iteration_groups", "benchmark_id %d is missing of 1 to %d", id, len(d.groups))
		}
	}
}

// resultOrder checks the labels of a rank document's rows and returns each id's position.
func (d *Document) resultOrder(found *violations) map[int]int {
	order := map[int]int{}
	regimes := regimeRules{warm: d.member(found).optional("kvwarm"), rows: map[coordinate][]seenRow{}}
	for i, raw := range d.results {
		tree, err := decodeTree(raw)
		if err != nil {
			found.add(fmt.Sprintf("$.results[%d]", i), "%v", err)
			continue
		}
		row := node{path: fmt.Sprintf("$.results[%d]", i), value: tree, ok: true, found: found}
		id, _ := row.get("point").get("benchmark_id").int()
		order[id] = i
		if row.get("point").optional("dp_rank").ok {
			row.get("point").get("dp_rank").fail("only a merged document's points carry a rank")
		}
		for _, key := range []string{"benchmark_id", "batch_size", "total_prefill_tokens", "total_kv_read_tokens"} {
			row.get("point").get(key).int()
		}
		for _, fpm := range row.get("fpms").list() {
			fpm.get("counter_id").int()
			fpm.get("dp_rank").int()
			fpm.get("wall_time").float()
		}
		regimes.row(row)
	}
	return order
}

// checkMerged applies the rules to a merged document.
func (d *Document) checkMerged() []Violation {
	var found violations
	doc := d.member(&found)
	doc.get("schema_version").is(SchemaVersion)
	doc.get("status").oneOf("complete", "partial")
	dp := doc.get("dp")
	size := dp.get("global_size").ranks()
	ranks, sources := ints(dp.get("ranks")), ints(dp.get("source_ranks"))
	for rank := range size {
		if rank >= len(ranks) || ranks[rank] != rank {
			dp.get("ranks").fail("want 0 to %d, got %v", size-1, ranks)
			break
		}
	}
	loaded := map[int]bool{}
	for _, rank := range sources {
		loaded[rank] = true
	}
	for rank := range size {
		if !loaded[rank] {
			dp.get("source_ranks").fail("rank %d missing", rank)
		}
	}
	if n := len(doc.get("rank_files").list()); n != len(sources) {
		doc.get("rank_files").fail("want one for each of %d source ranks, got %d", len(sources), n)
	}
	doc.get("merged_output_path").text()
	rules := newGroupRules(d, true, &found)
	rules.size = size
	if rules.contract {
		ledgers := doc.get("rank_warmup_evidence")
		for rank := range size {
			if ledger := ledgers.get(fmt.Sprint(rank)); ledger.ok {
				rules.mergedLedger(rank, ledger)
			}
		}
	}
	rules.groups(d, &found)
	own := d.own(&found)
	for rank := range size {
		rules.checkHost(own.optional(strconv.Itoa(rank)), rank)
	}
	if measured, ok := doc.get("timing").get("measured_iteration_seconds").float(); ok && !closeTo(measured, rules.sum, 1e-9, 1e-12) {
		doc.get("timing").get("measured_iteration_seconds").fail("the groups' wall times add up to %v, got %v", rules.sum, measured)
	}
	return append(found, d.checkFlat(size)...)
}

// mergedLedger loads a ledger unless its rank's file was not part of the merge.
func (g *groupRules) mergedLedger(rank int, n node) {
	if n.optional("reason").value == "rank_artifact_not_loaded" {
		return
	}
	g.loadLedger(rank, n)
}

// checkFlat checks the flattened rows of a merged document against what its groups flatten to.
func (d *Document) checkFlat(size int) []Violation {
	var found violations
	if len(d.results) != len(d.groups)*size {
		found.add("$.results", "want %d rows, one for each rank of each group, got %d", len(d.groups)*size, len(d.results))
		return found
	}
	groups, err := d.groupTexts()
	if err != nil {
		return append(found, violationOf(err))
	}
	rows := flatten(groups, nil)
	if len(rows) != len(d.results) {
		found.add("$.iteration_groups", "want %d records in each group's rank_results", size)
		return found
	}
	for i, raw := range d.results {
		var got, want map[string]json.RawMessage
		if json.Unmarshal(raw, &got) != nil || json.Unmarshal(rows[i].text(), &want) != nil ||
			!equalRaw(got["point"], want["point"]) || !equalRaw(got["fpms"], want["fpms"]) {
			found.add(fmt.Sprintf("$.results[%d]", i), "differs from the group's record of that rank")
		}
	}
	return found
}

// checkSidecar applies the rules to a worker-probe document.
func (d *Document) checkSidecar() []Violation {
	var found violations
	doc := d.member(&found)
	doc.get("schema_version").is(1)
	for _, key := range []string{"run_id", "merged_output_path"} {
		if doc.get(key).text() == "" {
			doc.get(key).fail("want a non-empty string")
		}
	}
	checkView(doc.get("merged"))
	files := doc.get("rank_files").list()
	ranks, _ := doc.get("ranks").value.(map[string]any)
	if len(ranks) != len(files) {
		doc.get("ranks").fail("want one view for each of %d rank files, got %d", len(files), len(ranks))
	}
	for rank := range ranks {
		checkView(doc.get("ranks").get(rank))
	}
	return found
}

func checkView(n node) {
	if !n.object() {
		return
	}
	n.get("resolution").text()
	probe := n.get("worker_probe")
	probe.get("schema_version").is(1)
	probe.get("responses").list()
	complete := probe.get("coverage").get("complete").bool()
	if n.optional("resolution").value == "worker_probe" && !complete {
		n.get("resolution").fail("worker_probe needs complete coverage")
	}
}
