package env

import (
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	tests := []struct {
		name  string
		in    Topology
		world int
		want  Topology
		err   string
	}{
		{"nothing given is data parallel", Topology{}, 5, Topology{5, 1, 1, 1}, ""},
		{"tp leaves dp", Topology{TP: 4}, 8, Topology{2, 1, 1, 4}, ""},
		{"dp leaves pp", Topology{DP: 2}, 8, Topology{2, 4, 1, 1}, ""},
		{"one missing", Topology{DP: 2, PP: 2, PCP: 1}, 8, Topology{2, 2, 1, 2}, ""},
		{"all given", Topology{2, 1, 2, 2}, 8, Topology{2, 1, 2, 2}, ""},
		{"world of one", Topology{1, 1, 1, 1}, 1, Topology{1, 1, 1, 1}, ""},
		{"does not divide", Topology{TP: 3}, 8, Topology{}, "tp 3 = 3 does not divide 8 ranks"},
		{"product too small", Topology{2, 1, 1, 2}, 8, Topology{}, "dp 2 x pp 1 x pcp 1 x tp 2 = 4 ranks, but there are 8"},
		{"product too large", Topology{1 << 20, 1 << 20, 1 << 20, 1 << 20}, 8, Topology{}, "but there are 8"},
		{"negative", Topology{TP: -1}, 8, Topology{}, "tp -1"},
		{"no ranks", Topology{}, 0, Topology{}, "want at least 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.in.Resolve(tt.world)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("Resolve(%d) error = %v, want it to contain %q", tt.world, err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Fatalf("Resolve(%d) = %v, %v, want %v", tt.world, got, err, tt.want)
			}
		})
	}
}

func TestPlaceIsTheInverseOfRank(t *testing.T) {
	topo := Topology{DP: 2, PP: 3, PCP: 2, TP: 4}
	for r := range topo.Ranks() {
		c := topo.Place(r)
		if got := topo.Rank(c); got != r {
			t.Errorf("Rank(Place(%d)) = %d", r, got)
		}
	}
	// TP is fastest, DP slowest.
	if got, want := topo.Place(5), (Coordinates{DP: 0, PP: 0, PCP: 1, TP: 1}); got != want {
		t.Errorf("Place(5) = %+v, want %+v", got, want)
	}
	if got, want := topo.Place(24), (Coordinates{DP: 1}); got != want {
		t.Errorf("Place(24) = %+v, want %+v", got, want)
	}
}
