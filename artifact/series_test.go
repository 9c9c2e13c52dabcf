package artifact

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The median difference is that of the list of all differences, for few and odd and even and equal numbers.
func TestMedianDifference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for n := 1; n < 8; n++ {
		for m := 1; m < 8; m++ {
			a, b := make([]float64, n), make([]float64, m)
			for i := range a {
				a[i] = math.Round(4 * random.NormFloat64())
			}
			for i := range b {
				b[i] = 1 + random.NormFloat64()
			}
			if n == m { // with ties
				copy(b, a)
			}
			slices.Sort(a)
			slices.Sort(b)
			var all []float64
			for _, x := range a {
				for _, y := range b {
					all = append(all, y-x)
				}
			}
			if got, want := medianDifference(a, b), medianOfAll(all); math.Abs(got-want) > 2*precision {
				t.Errorf("%v against %v: %v, want %v", b, a, got, want)
			}
		}
	}
}

// The level of a launch is what all its points share, and one slow point does not change it.
func TestLevels(t *testing.T) {
	side := func(name string, levels ...float64) (all []*Observed) {
		for _, level := range levels {
			all = append(all, launchOf(name+string(rune('a'+len(all))), 2, 6, func(point, rank int) []float64 {
				t := level * float64(1+point)
				if name == "new" && point == 2 {
					t *= 8
				}
				return []float64{t * float64(1+rank)}
			}))
		}
		return all
	}
	d, err := NewDiff(side("old", 1, 1.5, 0.5), side("new", 2, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Pairs {
		want := 0.0
		if p.PointKey == "point2" {
			want = math.Log(8)
		}
		if math.Abs(p.move-want) > 1e-9 || p.Moved != (want > 0) {
			t.Errorf("%s rank %d: move %v, want %v; moved %v", p.PointKey, p.DPRank, p.move, want, p.Moved)
		}
		for i, want := range []float64{0, 1.5, 0.5} {
			if want > 0 && math.Abs(p.Old.timed[i].level-math.Log(want)) > 1e-9 {
				t.Errorf("%s rank %d: level of launch %d is %v, want %v", p.PointKey, p.DPRank, i, p.Old.timed[i].level, math.Log(want))
			}
		}
	}
}
