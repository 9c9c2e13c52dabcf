// Command evidencecost says what the evidence of host and process costs a step: it reads a rank document that was made with --evidence alternate, takes
// its points two by two, one with the evidence and one without, and prints the difference of their median steps with an interval.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/fpmrun/fpmrun/artifact"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// Limits of the upper end of the interval: the larger of the two.
const (
	limitShare   = 0.005
	limitSeconds = 20e-6
)

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: evidencecost RANK.json")
		return 2
	}
	pairs, err := read(args[0])
	if err != nil {
		fmt.Fprintln(stderr, "evidencecost:", err)
		return 1
	}
	var differences, without []float64
	steps := 0
	for _, p := range pairs {
		with, minimal := median(p[0]), median(p[1])
		differences, without = append(differences, with-minimal), append(without, minimal)
		steps += len(p[0])
	}
	usual := median(without)
	low, high := bootstrap(differences, 10000)
	limit := max(limitSeconds, limitShare*usual)
	fmt.Fprintf(stdout, "%d pairs of %d steps: a step takes %.1f us; evidence adds %+.2f us (%+.2f %%), 95 %% interval %+.2f to %+.2f us; limit %.1f us\n",
		len(pairs), steps/len(pairs), 1e6*usual, 1e6*median(differences), 100*median(differences)/usual, 1e6*low, 1e6*high, 1e6*limit)
	if high > limit {
		fmt.Fprintln(stderr, "evidencecost: the upper end is above the limit")
		return 1
	}
	return 0
}

// read is the wall times, in seconds, of the steady decode steps of each two neighbouring points: those with the evidence first.
func read(path string) ([][2][]float64, error) {
	text, err := artifact.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Results []artifact.Result `json:"results"`
		Own     artifact.History  `json:"fpmrun"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	seen := map[int]bool{}
	for _, p := range doc.Own.Points {
		seen[p.BenchmarkID] = true
	}
	var pairs [][2][]float64
	for i := 0; i+1 < len(doc.Results); i += 2 {
		var pair [2][]float64
		for _, r := range doc.Results[i : i+2] {
			which := 1
			if seen[r.Point.BenchmarkID] {
				which = 0
			}
			for _, raw := range r.FPMs[0].Measurement.Raw {
				if raw.Sample.Timing.Basis == artifact.InterOutput {
					pair[which] = append(pair[which], float64(raw.WallTime))
				}
			}
		}
		if len(pair[0]) == 0 || len(pair[0]) != len(pair[1]) {
			return nil, fmt.Errorf("%s: points %d and %d are no pair: %d steady steps with the evidence, %d without; want --evidence alternate and one coordinate",
				path, doc.Results[i].Point.BenchmarkID, doc.Results[i+1].Point.BenchmarkID, len(pair[0]), len(pair[1]))
		}
		pairs = append(pairs, pair)
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%s: no pair of points", path)
	}
	return pairs, nil
}
