package main

import (
	"math/rand/v2"
	"slices"
)

// bootstrap is the 95 % percentile interval of the median of values (Efron 1979): the median of n draws with replacement, resamples times. The draws are
// the same in every run.
func bootstrap(values []float64, resamples int) (low, high float64) {
	random := rand.New(rand.NewPCG(1, 2))
	medians, draw := make([]float64, resamples), make([]float64, len(values))
	for i := range medians {
		for k := range draw {
			draw[k] = values[random.IntN(len(values))]
		}
		medians[i] = median(draw)
	}
	slices.Sort(medians)
	return medians[resamples*25/1000], medians[resamples*975/1000-1]
}

// median is the middle value, or the mean of the middle two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
