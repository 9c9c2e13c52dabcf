package cuda

import (
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// Every key that a token sees is in exactly one item of its tile, and there are never more items than memory is set aside for.
func TestPlanCoversKeys(t *testing.T) {
	for _, c := range []struct {
		name          string
		rows          [][2]int // computed, new
		group, window int
	}{
		{"decode", [][2]int{{0, 1}, {255, 1}, {256, 1}, {4095, 1}, {100000, 1}}, 4, 0},
		{"prefill", [][2]int{{0, 513}, {4096, 100}}, 5, 0},
		{"window", [][2]int{{0, 300}, {1000, 1}, {5000, 7}}, 7, 128},
		{"one head a group", [][2]int{{3, 40}}, 1, 0},
		{"wide group", [][2]int{{3, 3}}, 16, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			step := &gpu.Step{}
			for _, r := range c.rows {
				step.Rows = append(step.Rows, gpu.Row{Computed: r[0], Tokens: make([]uint32, r[1])})
			}
			var w work
			const lists = 66
			w.plan(step, c.group, c.window, cut{lists: lists, rows: tileRows, piece: 2 * keyStep})
			if len(w.items) > len(w.tiles)+lists {
				t.Errorf("%d items of %d tiles", len(w.items), len(w.tiles))
			}
			if len(w.starts) != lists+1 || w.starts[0] != 0 || int(w.starts[lists]) != len(w.items) || !slices.IsSorted(w.starts) {
				t.Errorf("lists begin at %v of %d items", w.starts, len(w.items))
			}
			token, item, pieces := 0, 0, 0
			for i, tl := range w.tiles {
				if int(tl.first) != token || int(tl.tokens)*c.group > max(tileRows, c.group) {
					t.Fatalf("tile %d: %+v, want token %d", i, tl, token)
				}
				token += int(tl.tokens)
				at, end := tl.keys(c.window)
				for n, it := range w.items[item : item+int(tl.items)] {
					if int(it.tile) != i || int(it.begin) != at || it.end <= it.begin || it.begin%16 != 0 {
						t.Fatalf("tile %d, item %+v: want it to begin at %d", i, it, at)
					}
					if tl.items > 1 && int(it.piece) != pieces+n || tl.items > 1 && int(tl.piece) != pieces {
						t.Fatalf("tile %d, %+v, item %+v: want piece %d", i, tl, it, pieces+n)
					}
					at = int(it.end)
				}
				if at != end {
					t.Errorf("tile %d ends at key %d, want %d", i, at, end)
				}
				item += int(tl.items)
				if tl.items > 1 {
					pieces += int(tl.items)
				}
			}
			if pieces > 2*lists {
				t.Errorf("%d pieces, memory is for %d", pieces, 2*lists)
			}
			longest, sum := 0, 0
			for i := range lists {
				cost := 0
				for _, it := range w.items[w.starts[i]:w.starts[i+1]] {
					cost += int(it.end-it.begin) + itemCost
				}
				longest, sum = max(longest, cost), sum+cost
			}
			if mean := sum / lists; longest > mean+mean/4+4*keyStep {
				t.Errorf("the longest list has %d keys, the mean is %d", longest, mean)
			}
			if token != step.Tokens() {
				t.Errorf("tiles of %d tokens, want %d", token, step.Tokens())
			}
		})
	}
}
