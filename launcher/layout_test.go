package launcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		name     string
		programs []int
		nodes    int
		places   []int
		want     [][]int
	}{
		{"equal", []int{4}, 2, nil, [][]int{{2}, {2}}},
		{"larger first", []int{5}, 3, nil, [][]int{{2}, {2}, {1}}},
		{"given places", []int{5}, 2, []int{3, 2}, [][]int{{3}, {2}}},
		{"two programs", []int{1, 3}, 2, nil, [][]int{{1, 1}, {0, 2}}},
		{"three programs", []int{2, 1, 3}, 3, nil, [][]int{{2, 0, 0}, {0, 1, 1}, {0, 0, 2}}},
	} {
		got, err := spread(c.programs, c.nodes, c.places)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", c.name, err, diff)
		}
	}
	if _, err := spread([]int{1}, 2, nil); err == nil || !strings.Contains(err.Error(), "type -np 2, or --nnodes 1") {
		t.Errorf("too few ranks: %v", err)
	}
	if _, err := spread([]int{4}, 2, []int{2, 1}); err == nil {
		t.Error("places for 3 of 4 ranks were accepted")
	}
}

func TestLayouts(t *testing.T) {
	want := []layout{{Node: 0, Nodes: 2, First: 0, World: 5}, {Node: 1, Nodes: 2, First: 3, World: 5}}
	if diff := cmp.Diff(want, layouts([][]int{{1, 2}, {0, 2}})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
