package picture

import (
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

func labels(ticks []plot.Tick) string {
	var all []string
	for _, t := range ticks {
		if t.Label != "" {
			all = append(all, t.Label)
		}
	}
	return strings.Join(all, " ")
}

func TestTicks(t *testing.T) {
	var all []int
	for i := 1; i <= 64; i++ {
		all = append(all, i)
	}
	for _, c := range []struct{ name, got, want string }{
		{"places with room", labels(placeTicks([]int{1, 2, 4, 8, 64})), "1 2 4 8 64"},
		{"places without", labels(placeTicks(all)), "1 2 3 4 6 8 11 14 18 23 29 37 47 64"},
		{"one place", labels(placeTicks([]int{5})), "5"},
		{"decades", labels(decadeTicks{}.Ticks(0.4, 30)), "0.5 1 2 5 10 20"},
		{"many decades", labels(decadeTicks{}.Ticks(0.01, 500)), "0.01 0.1 1 10 100"},
		{"even", labels(evenTicks{}.Ticks(0, 18)), "0 2 4 6 8 10 12 14 16 18"},
		{"even and small", labels(evenTicks{}.Ticks(0, 0.03)), "0 0.005 0.01 0.015 0.02 0.025 0.03"},
		{"numbers", strings.Join([]string{number(0), number(1234.4), number(12.34), number(0.012345), number(3)}, " "), "0 1234 12.3 0.0123 3"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}
