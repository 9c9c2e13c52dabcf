package artifact

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// launchOf is a launch of points on ranks, with a time or several raw samples of each.
func launchOf(name string, ranks, points int, times func(point, rank int) []float64) *Observed {
	o := &Observed{Path: name, RunID: name}
	for i := range points * ranks {
		p := Observation{Point: Point{PointType: Decode, BatchSize: i/ranks + 1, BenchmarkID: i/ranks + 1}, Key: fmt.Sprint("point", i/ranks), Rank: i % ranks}
		for _, t := range times(i/ranks, i%ranks) {
			p.Samples = append(p.Samples, Float(t))
		}
		p.Wall = p.Samples[len(p.Samples)/2]
		o.Points = append(o.Points, p)
	}
	return o
}

// named lists the pairs that a comparison names, as point and rank.
func named(t *testing.T, old, fresh []*Observed) (pairs []string, d *Diff) {
	t.Helper()
	d, err := NewDiff(old, fresh)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Pairs {
		if p.Moved || p.Stands {
			pairs = append(pairs, fmt.Sprintf("%s rank %d", p.PointKey, p.DPRank))
		}
	}
	return pairs, d
}

// realNoise are launches that were measured on an idle and on a busy host, by host.
func realNoise(t *testing.T) map[string][]*Observed {
	t.Helper()
	f, err := os.Open("testdata/cpu-noise.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	lines, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]*Observed{}
	for i, line := range lines {
		all[line[0]] = append(all[line[0]], launchOf(fmt.Sprint(line[0], i), 2, len(line)/2, func(point, rank int) []float64 {
			us, err := strconv.ParseFloat(line[1+2*point+rank], 64)
			if err != nil {
				t.Fatal(err)
			}
			return []float64{us / 1e6}
		}))
	}
	return all
}

// slowed are launches with one point slower on both ranks.
func slowed(launches []*Observed, key string, factor Float) []*Observed {
	var all []*Observed
	for _, o := range launches {
		c := *o
		c.Points = slices.Clone(o.Points)
		for i := range c.Points {
			if c.Points[i].Key == key {
				c.Points[i].Wall *= factor
				c.Points[i].Samples = []Float{c.Points[i].Wall}
			}
		}
		all = append(all, &c)
	}
	return all
}

// In the noise of real launches, drawn at random or as they followed each other, a point that takes three times as long is named and no other. Of equals
// hardly any comparison names one. The bounds leave room below what was measured with these draws.
func TestDiffInRealNoise(t *testing.T) {
	launches := realNoise(t)
	for _, c := range []struct {
		host      string
		n         int
		exact     int // of 100 comparisons at least: the slowed point and no other
		falsified int // of 100 comparisons of equals at most: any point
	}{
		{"idle", 5, 99, 0}, {"one", 5, 93, 1}, {"two", 5, 97, 2},
		{"idle", 8, 98, 1}, {"one", 8, 99, 1}, {"two", 8, 99, 1},
		{"idle", 1, 0, 0}, {"one", 1, 0, 0}, {"two", 1, 0, 0},
	} {
		exact, falsified := 0, 0
		for trial := range 100 {
			random := rand.New(rand.NewPCG(uint64(trial), uint64(c.n)))
			drawn, all := make([]*Observed, 2*c.n), launches[c.host]
			if trial%2 == 0 {
				for i, at := range random.Perm(len(all))[:2*c.n] {
					drawn[i] = all[at]
				}
			} else {
				copy(drawn, all[random.IntN(len(all)-2*c.n+1):])
			}
			if pairs, _ := named(t, drawn[:c.n], drawn[c.n:]); len(pairs) > 0 {
				falsified++
			}
			slow := fmt.Sprint("point", random.IntN(9))
			pairs, _ := named(t, drawn[:c.n], slowed(drawn[c.n:], slow, 3))
			if len(pairs) > 0 && !slices.ContainsFunc(pairs, func(p string) bool { return !strings.HasPrefix(p, slow+" ") }) {
				exact++
			}
		}
		t.Logf("%s, %d launches a side: %d exact, %d of equals", c.host, c.n, exact, falsified)
		if exact < c.exact || falsified > c.falsified {
			t.Errorf("%s, %d launches a side: the slowed point and no other in %d of 100, want %d; a point of equals in %d, want at most %d", c.host, c.n, exact, c.exact, falsified, c.falsified)
		}
	}
}

// In quiet data 10 % are seen with 20 times of each point, of launches and of one launch's samples, and on one rank where one moved.
func TestDiffTenPercent(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		side := func(name string, launches, samples int, factor func(point, rank int) float64) (all []*Observed) {
			for l := range launches {
				drift := math.Exp(0.01 * random.NormFloat64())
				all = append(all, launchOf(fmt.Sprint(name, l), 2, 10, func(point, rank int) []float64 {
					var times []float64
					for range samples {
						times = append(times, 0.001*float64(point+1)*drift*factor(point, rank)*math.Exp(0.01*random.NormFloat64()))
					}
					return times
				}))
			}
			return all
		}
		same := func(int, int) float64 { return 1 }
		both := func(point, _ int) float64 { return 1 + 0.1*float64(point/6*(1-point/7)) } // point 6
		one := func(point, rank int) float64 { return 1 + (both(point, rank)-1)*float64(rank) }
		want := []string{"point6 rank 0", "point6 rank 1"}
		for _, c := range []struct {
			name              string
			launches, samples int
			factor            func(point, rank int) float64
			want              []string
		}{
			{"launches", 20, 1, both, want}, {"samples", 1, 20, both, want}, {"5 launches", 5, 1, both, want},
			{"one rank", 20, 1, one, want[1:]}, {"one rank's samples", 1, 20, one, want[1:]}, {"equals", 20, 1, same, nil}, {"equal samples", 1, 20, same, nil},
		} {
			got, d := named(t, side("a", c.launches, c.samples, same), side("b", c.launches, c.samples, c.factor))
			if !slices.Equal(got, c.want) || d.Moved != min(1, len(c.want)) {
				t.Errorf("seed %d, %s: named %v, want %v; %+v", seed, c.name, got, c.want, d.Noise)
			}
		}
	}
}

// Points that moved do not hide each other, and when most moved, the others are not what is named.
func TestDiffManyPoints(t *testing.T) {
	for _, c := range []struct {
		moved, want int
		shift       float64
	}{{6, 6, 1}, {9, 9, 1}, {20, 0, 1.5}, {14, 0, 1.5}} {
		random := rand.New(rand.NewPCG(uint64(c.moved), 3))
		side := func(name string, factor float64) (all []*Observed) {
			for l := range 5 {
				all = append(all, launchOf(fmt.Sprint(name, l), 1, 20, func(point, _ int) []float64 {
					t := 0.001 * math.Exp(0.01*random.NormFloat64())
					if point < c.moved {
						t *= factor
					}
					return []float64{t}
				}))
			}
			return all
		}
		pairs, d := named(t, side("a", 1), side("b", 1.5))
		if len(pairs) != c.want || math.Abs(float64(d.Shift.Ratio)/c.shift-1) > 0.05 || d.Shift.Low > d.Shift.Ratio || d.Shift.High < d.Shift.Ratio {
			t.Errorf("%d of 20 points moved: named %v, want %d; shift %+v, want %v", c.moved, pairs, c.want, *d.Shift, c.shift)
		}
		if text := d.Conclusion(); strings.HasSuffix(text, "what all points together did") != (c.want == 0) {
			t.Errorf("%d of 20 points moved: %q", c.moved, text)
		}
	}
}

// Too few times or points are told, and nothing is named by them.
func TestDiffTooFew(t *testing.T) {
	const launches, few = "too few launches to tell: ", "no point can be told from noise"
	for _, c := range []struct {
		name                      string
		launches, samples, points int
		want, not                 string
	}{
		{"one time", 1, 1, 9, few, "would"}, {"two launches", 2, 1, 9, few, "would"}, {"samples", 1, 5, 9, "would stand out", few},
		{"samples of few points", 1, 20, 4, few, "would"}, {"launches of few points", 3, 1, 1, "would be named", launches},
	} {
		side := func(name string, factor float64) (all []*Observed) {
			for l := range c.launches {
				all = append(all, launchOf(fmt.Sprint(name, l), 1, c.points, func(point, _ int) []float64 {
					times := make([]float64, c.samples)
					for i := range times {
						times[i] = 0.001 * float64(1+point)
						if point == 0 {
							times[i] *= factor
						}
					}
					return times
				}))
			}
			return all
		}
		pairs, d := named(t, side("a", 1), side("b", 10))
		var b strings.Builder
		if err := d.WriteText(&b, false); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); !strings.Contains(text, c.want) || strings.Contains(text, c.not) || (len(pairs) > 0) != strings.Contains(c.want, "would") {
			t.Errorf("%s: named %v, want %q and not %q in\n%s", c.name, pairs, c.want, c.not, text)
		}
	}
}
