package main

import "testing"

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		times [][2]float64
		want  int
	}{
		{[][2]float64{{1, 2}, {2, 3}, {5, 4}, {9, 6}}, 2},
		{[][2]float64{{1, 2}, {3.1, 3}, {4, 6}, {9, 6}}, 3}, // one outlier does not decide
		{[][2]float64{{2, 1}, {3, 1}}, 0},
		{[][2]float64{{1, 2}, {1, 3}}, 2},
	} {
		if got := split(c.times); got != c.want {
			t.Errorf("%v: %d, want %d", c.times, got, c.want)
		}
	}
}
