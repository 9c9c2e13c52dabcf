package artifact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// flatten lists every rank's record of every point, by id and then rank, with the rank in the point.
func flatten(docs []*Document) ([]json.RawMessage, error) {
	regimes := map[int]map[int]json.RawMessage{} // rank -> benchmark_id -> kv_seed_regime
	for _, d := range docs {
		of := map[int]json.RawMessage{}
		for _, raw := range d.results {
			var row struct {
				Point struct {
					ID int `json:"benchmark_id"`
				} `json:"point"`
				Regime json.RawMessage `json:"kv_seed_regime"`
			}
			if err := json.Unmarshal(raw, &row); err != nil {
				return nil, fmt.Errorf("artifact: %q: results: %w", d.Path, err)
			}
			of[row.Point.ID] = row.Regime
		}
		regimes[d.rank()] = of
	}
	type group struct {
		ID      int             `json:"benchmark_id"`
		Point   json.RawMessage `json:"point"`
		Results []struct {
			Rank int             `json:"dp_rank"`
			FPMs json.RawMessage `json:"fpms"`
		} `json:"rank_results"`
	}
	groups := make([]group, len(docs[0].groups))
	for i, raw := range docs[0].groups {
		if err := json.Unmarshal(raw, &groups[i]); err != nil {
			return nil, fmt.Errorf("artifact: %q: iteration_groups[%d]: %w", docs[0].Path, i, err)
		}
	}
	slices.SortFunc(groups, func(a, b group) int { return cmp.Compare(a.ID, b.ID) })
	var rows []json.RawMessage
	for _, g := range groups {
		open := bytes.TrimSuffix(bytes.TrimSpace(g.Point), []byte("}"))
		for _, r := range g.Results {
			row := fmt.Appendf([]byte(`{"point":`), `%s,"dp_rank":%d},"fpms":%s`, open, r.Rank, r.FPMs)
			if regime := regimes[r.Rank][g.ID]; regime != nil {
				row = fmt.Appendf(row, `,"kv_seed_regime":%s`, regime)
			}
			rows = append(rows, append(row, '}'))
		}
	}
	return rows, nil
}
