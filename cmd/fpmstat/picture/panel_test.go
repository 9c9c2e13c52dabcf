package picture

import (
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

// KV lengths are rounded where they are too many, or where many would be lines of one point, and not where rounding joins none.
func TestRoundedLengths(t *testing.T) {
	decode := func(pairs ...[2]int) []Point {
		var all []Point
		for _, p := range pairs {
			all = append(all, Point{Type: artifact.Decode, Batch: p[0], KVTokens: p[0] * p[1], NewTokens: p[0], Wall: 1})
		}
		return all
	}
	many := decode()
	for i := range 12 {
		many = append(many, decode([2]int{1, 1000 + i}, [2]int{2, 1000 + i})...)
	}
	for _, c := range []struct {
		name    string
		points  []Point
		about   bool
		lengths []int
	}{
		{"a grid", decode([2]int{1, 16}, [2]int{2, 16}, [2]int{1, 48}, [2]int{2, 48}), false, []int{16, 48}},
		{"one batch size", decode([2]int{1, 16}, [2]int{1, 32}), false, []int{16, 32}},
		{"ends that nearly meet", decode([2]int{1, 16}, [2]int{2, 16}, [2]int{1, 510}, [2]int{2, 496}, [2]int{4, 480}), true, []int{16, 512}},
		{"too many", many, true, []int{1024}},
		{"none and little", decode([2]int{1, 0}, [2]int{1, 3}, [2]int{2, 2}, [2]int{2, 1}), true, []int{0, 1, 2}},
	} {
		found := panels(c.points)
		if len(found) != 1 {
			t.Fatalf("%s: %d panels, want 1", c.name, len(found))
		}
		if p := found[0]; p.about != c.about || !slices.Equal(p.lengths(), c.lengths) {
			t.Errorf("%s: rounded %v to %v, want %v, %v", c.name, p.about, p.lengths(), c.about, c.lengths)
		}
	}
}

// Prefill has a panel for each of the batch sizes with most points; points with unequal requests are in none.
func TestPrefillPanels(t *testing.T) {
	var all []Point
	for batch, n := range map[int]int{1: 3, 2: 5, 4: 4, 8: 2} {
		for i := range n {
			all = append(all, Point{Type: artifact.Prefill, Batch: batch, NewTokens: batch * (i + 1), Wall: 1})
		}
	}
	all = append(all, Point{Type: artifact.Prefill, Batch: 16, NewTokens: 16, Wall: 1, Unequal: true})
	var titles []string
	for _, p := range panels(all) {
		titles = append(titles, p.title+p.left)
	}
	if want := []string{"Prefill, batch 1Prefill of 1 more batch sizes is in the table only.", "Prefill, batch 2", "Prefill, batch 4"}; !slices.Equal(titles, want) {
		t.Errorf("%q, want %q", titles, want)
	}
}
