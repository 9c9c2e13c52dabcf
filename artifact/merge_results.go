package artifact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// groupText is an iteration group in its text.
type groupText struct {
	id    int
	point json.RawMessage
	fpms  []json.RawMessage // the list of records of each rank, in the order of rank_results
	ranks []int             // the rank of each
}

// takeGroups takes the groups of a document apart.
func (d *Document) takeGroups() ([]groupText, error) {
	texts := make([]groupText, len(d.groups))
	for i, raw := range d.groups {
		g, err := newGroupText(raw)
		if err != nil {
			return nil, d.inPart(raw, fmt.Sprintf("$.iteration_groups[%d]", i), err)
		}
		texts[i] = g
	}
	return texts, nil
}

// newGroupText takes a group apart. The place in an error is within the group.
func newGroupText(raw json.RawMessage) (groupText, *JSONError) {
	var g groupText
	fail := func(part json.RawMessage, path string, err error) (groupText, *JSONError) {
		return g, &JSONError{Path: path, Offset: int64(within(raw, firstPart(part, raw))), Err: err}
	}
	group, err := objectMembers(raw)
	if err != nil {
		return fail(raw, "", err)
	}
	if g.id, err = integerText(group["benchmark_id"]); err != nil {
		return fail(group["benchmark_id"], ".benchmark_id", err)
	}
	g.point = group["point"]
	results, err := listElements(group["rank_results"])
	if err != nil {
		return fail(group["rank_results"], ".rank_results", err)
	}
	for i, r := range results {
		path := fmt.Sprintf(".rank_results[%d]", i)
		result, err := objectMembers(r)
		if err != nil {
			return fail(r, path, err)
		}
		rank, err := integerText(result["dp_rank"])
		if err != nil {
			return fail(result["dp_rank"], path+".dp_rank", err)
		}
		g.fpms, g.ranks = append(g.fpms, result["fpms"]), append(g.ranks, rank)
	}
	return g, nil
}

// integerText is an integer that is still in its text, nil when it is missing.
func integerText(raw json.RawMessage) (int, error) {
	if raw == nil {
		return 0, errors.New("missing")
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0, fmt.Errorf("want an integer of at most 64 bits, got %s", describe(raw))
	}
	return n, nil
}

// firstPart is a part of a text, or what it is missing of.
func firstPart(part, of json.RawMessage) json.RawMessage {
	if part == nil {
		return of
	}
	return part
}

// rowText is one row of results in its text.
type rowText struct {
	id                  int
	point, fpms, regime json.RawMessage
}

// row takes row i of the results apart.
func (d *Document) row(i int) (rowText, error) {
	var r rowText
	raw, path := d.results[i], fmt.Sprintf("$.results[%d]", i)
	row, err := objectMembers(raw)
	if err != nil {
		return r, d.broken(raw, path, err)
	}
	r.point, r.fpms, r.regime = row["point"], row["fpms"], row["kv_seed_regime"]
	if r.point == nil {
		return r, d.broken(raw, path+".point", errors.New("missing"))
	}
	point, err := objectMembers(r.point)
	if err != nil {
		return r, d.broken(r.point, path+".point", err)
	}
	if r.id, err = integerText(point["benchmark_id"]); err != nil {
		return r, d.broken(firstPart(point["benchmark_id"], r.point), path+".point.benchmark_id", err)
	}
	return r, nil
}

// seedRegimes is the kv_seed_regime of each row, by rank and benchmark_id.
func seedRegimes(docs []*Document) (map[int]map[int]json.RawMessage, error) {
	regimes := map[int]map[int]json.RawMessage{}
	for _, d := range docs {
		of := map[int]json.RawMessage{}
		for i := range d.results {
			row, err := d.row(i)
			if err != nil {
				return nil, err
			}
			of[row.id] = row.regime
		}
		regimes[d.rank()] = of
	}
	return regimes, nil
}

// flatten lists every rank's record of every point, by id and then rank, with the rank in the point.
func flatten(groups []groupText, regimes map[int]map[int]json.RawMessage) []pieces {
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b groupText) int { return cmp.Compare(a.id, b.id) })
	var rows []pieces
	for _, g := range groups {
		open := bytes.TrimSuffix(bytes.TrimSpace(g.point), []byte("}"))
		for i, rank := range g.ranks {
			row := pieces{[]byte(`{"point":`), open, fmt.Appendf(nil, `,"dp_rank":%d},"fpms":`, rank), g.fpms[i]}
			if regime := regimes[rank][g.id]; regime != nil {
				row = append(row, []byte(`,"kv_seed_regime":`), regime)
			}
			rows = append(rows, append(row, []byte("}")))
		}
	}
	return rows
}
