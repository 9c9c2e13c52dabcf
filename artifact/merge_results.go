package artifact

import (
	"bytes"
	"cmp"
	"encoding/json"
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
			return nil, fmt.Errorf("artifact: %q: iteration_groups[%d]: %w", d.Path, i, err)
		}
		texts[i] = g
	}
	return texts, nil
}

func newGroupText(raw json.RawMessage) (groupText, error) {
	var g groupText
	group, err := objectMembers(raw)
	if err != nil {
		return g, err
	}
	if g.id, err = strconv.Atoi(string(group["benchmark_id"])); err != nil {
		return g, fmt.Errorf("benchmark_id: %w", err)
	}
	g.point = group["point"]
	results, err := listElements(group["rank_results"])
	if err != nil {
		return g, fmt.Errorf("rank_results: %w", err)
	}
	for _, r := range results {
		result, err := objectMembers(r)
		if err != nil {
			return g, fmt.Errorf("rank_results: %w", err)
		}
		rank, err := strconv.Atoi(string(result["dp_rank"]))
		if err != nil {
			return g, fmt.Errorf("rank_results: dp_rank: %w", err)
		}
		g.fpms, g.ranks = append(g.fpms, result["fpms"]), append(g.ranks, rank)
	}
	return g, nil
}

// rowText is one row of results in its text.
type rowText struct {
	id                  int
	point, fpms, regime json.RawMessage
}

func newRowText(raw json.RawMessage) (rowText, error) {
	var r rowText
	row, err := objectMembers(raw)
	if err != nil {
		return r, err
	}
	r.point, r.fpms, r.regime = row["point"], row["fpms"], row["kv_seed_regime"]
	point, err := objectMembers(r.point)
	if err != nil {
		return r, fmt.Errorf("point: %w", err)
	}
	if r.id, err = strconv.Atoi(string(point["benchmark_id"])); err != nil {
		return r, fmt.Errorf("point: benchmark_id: %w", err)
	}
	return r, nil
}

// seedRegimes is the kv_seed_regime of each row, by rank and benchmark_id.
func seedRegimes(docs []*Document) (map[int]map[int]json.RawMessage, error) {
	regimes := map[int]map[int]json.RawMessage{}
	for _, d := range docs {
		of := map[int]json.RawMessage{}
		for i, raw := range d.results {
			row, err := newRowText(raw)
			if err != nil {
				return nil, fmt.Errorf("artifact: %q: results[%d]: %w", d.Path, i, err)
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
