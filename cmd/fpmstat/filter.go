package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
)

// filter chooses the points that are shown.
type filter struct {
	pointType string // "" for both
	context   int    // KV tokens of each request; 0 for any
	best      int    // how many, by tokens per second; 0 for all, in their order
}

// contextSlack is how far from the nearest measured KV length a point may be: the largest lengths of a grid differ a little between batch sizes.
const contextSlack = 0.05

func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "type", Usage: "only points of `TYPE` prefill or decode", DefaultText: "both"},
		&cli.IntFlag{Name: "context", Usage: "only points at the measured KV length per request that is nearest to `N` tokens", DefaultText: "all"},
		&cli.IntFlag{Name: "best", Usage: "only the `N` points with the most tokens per second, the best first", DefaultText: "all, in their order"},
	}
}

// newFilter reads the flags.
func newFilter(c *cli.Context) (filter, error) {
	f := filter{pointType: c.String("type"), context: c.Int("context"), best: c.Int("best")}
	switch {
	case f.pointType != "" && f.pointType != artifact.Prefill && f.pointType != artifact.Decode:
		return f, usage("show: --type %q: want prefill or decode", f.pointType)
	case c.IsSet("context") && f.context < 1:
		return f, usage("show: --context %d: want 1 or more tokens", f.context)
	case c.IsSet("best") && f.best < 1:
		return f, usage("show: --best %d: want 1 or more points", f.best)
	}
	return f, nil
}

// on reports whether any point may be left out.
func (f filter) on() bool { return f != filter{} }

// apply keeps the chosen points. It says in talk when the KV length asked for was not measured; an error names what there is when no point is left.
func (f filter) apply(rows []artifact.Summary, path string, talk io.Writer) ([]artifact.Summary, error) {
	var kept []artifact.Summary
	for _, r := range rows {
		if f.pointType == "" || r.PointType == f.pointType {
			kept = append(kept, r)
		}
	}
	if f.context > 0 {
		nearest, distance := 0.0, math.Inf(1)
		for _, r := range kept {
			if length := perRequest(r); length > 0 {
				if d := math.Abs(math.Log(length / float64(f.context))); d < distance {
					nearest, distance = length, d
				}
			}
		}
		kept = slices.DeleteFunc(kept, func(r artifact.Summary) bool { return nearest == 0 || math.Abs(perRequest(r)/nearest-1) > contextSlack })
		if len(kept) > 0 && distance > math.Log(1+contextSlack) {
			fmt.Fprintf(talk, "fpmstat: %s: no point has %d KV tokens per request; the nearest measured length is %.0f\n", path, f.context, nearest)
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("show: %q: none of its %d points is chosen by --type and --context", path, len(rows))
	}
	if f.best > 0 {
		slices.SortStableFunc(kept, func(a, b artifact.Summary) int { return cmp.Compare(b.TokensPerSec, a.TokensPerSec) })
		kept = kept[:min(f.best, len(kept))]
	}
	return kept, nil
}

// perRequest is the KV tokens of each request.
func perRequest(r artifact.Summary) float64 {
	if r.BatchSize < 1 {
		return 0
	}
	return float64(r.KVTokens) / float64(r.BatchSize)
}
