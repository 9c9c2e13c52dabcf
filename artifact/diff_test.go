package artifact

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// observedRun is a run of two ranks read back from its merged document, changed before it is written.
func observedRun(t *testing.T, id byte, change func([]*Rank)) *Observed {
	t.Helper()
	docs := run(t, 2)
	for _, d := range docs {
		d.RunID = strings.Repeat(string(id), 32)
	}
	if change != nil {
		change(docs)
	}
	paths := written(t, docs)
	merged, err := mergeFiles(t, paths)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir() + "/benchmark_merged.json"
	if err := WriteFile(out, merged); err != nil {
		t.Fatal(err)
	}
	o, err := Observe(out)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// everyRecord visits the retained records of all ranks, those in the groups included.
func everyRecord(docs []*Rank, visit func(f *FPM)) {
	for _, d := range docs {
		for i := range d.Results {
			visit(&d.Results[i].FPMs[0])
		}
	}
}

// Each difference is told under its own aspect and no other.
func TestDiffVerdicts(t *testing.T) {
	reading := HostReading{Governor: "performance"}
	for _, c := range []struct {
		name   string
		change func([]*Rank)
		want   [5]string // beginnings of the first five lines
		detail string
	}{
		{"the same", nil, [5]string{"inputs identical", "dispatch identical", "preparation identical", "engine identical", "clocks unknown"}, ""},
		{"other prompts", func(docs []*Rank) {
			prompts, err := RecordPrompts([][]uint32{{9}})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range docs {
				d.Protocol.ContentSeed = "7"
			}
			everyRecord(docs, func(f *FPM) { f.Measurement.Prompts = prompts })
		}, [5]string{"inputs differ at 3 of 3 points", "dispatch identical", "preparation identical", "engine identical", "clocks unknown"}, `content_seed: "0" against "7"`},
		{"another dispatch at one point", func(docs []*Rank) {
			everyRecord(docs, func(f *FPM) {
				if f.CounterID == 3 {
					f.Measurement.Raw[1].Sample.Cudagraph = ObservedGraph("FULL", 2, 4)
				}
			})
		}, [5]string{"inputs identical", "dispatch differs at 1 of 3 points", "preparation identical", "engine identical", "clocks unknown"}, "NONE 2 in 2, FULL 2 in 4"},
		{"unobserved dispatch", func(docs []*Rank) {
			everyRecord(docs, func(f *FPM) {
				for i := range f.Measurement.Raw {
					f.Measurement.Raw[i].Sample.Cudagraph = Cudagraph{Status: "unavailable"}
				}
			})
		}, [5]string{"inputs identical", "dispatch unknown", "preparation identical", "engine identical", "clocks unknown"}, ""},
		{"another warm-up", func(docs []*Rank) {
			for _, d := range docs {
				d.Ledger.Records[0].RequestedShape = ShapeRequest{[]int{128}}
			}
		}, [5]string{"inputs identical", "dispatch identical", "preparation differs at 3 of 3 points", "engine identical", "clocks unknown"}, "after 1 preparations"},
		{"another version", func(docs []*Rank) {
			for _, d := range docs {
				d.Engine.Versions.FPMRun = "2"
			}
		}, [5]string{"inputs identical", "dispatch identical", "preparation identical", "engine differs", "clocks unknown"}, `engine.versions.fpmrun: "1" against "2"`},
		{"clocks on one side", func(docs []*Rank) {
			for _, d := range docs {
				d.FPMRun = History{Processes: []ProcessHistory{}, Points: []PointEvidence{{BenchmarkID: 1, Before: reading}}}
			}
		}, [5]string{"inputs identical", "dispatch identical", "preparation identical", "engine identical", "clocks unknown"}, ""},
	} {
		d, err := NewDiff([]*Observed{observedRun(t, 'a', nil)}, []*Observed{observedRun(t, 'b', c.change)})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := d.WriteText(&b, false); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")
		for i, want := range c.want {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%s: line %d is %q, want %q", c.name, i+1, lines[i], want)
			}
		}
		if !strings.Contains(b.String(), c.detail) || !strings.Contains(b.String(), "too few launches to tell: 1 against 1") {
			t.Errorf("%s: want %q in\n%s", c.name, c.detail, b.String())
		}
	}
}

// Clocks are compared by size and reason, not by the GPU's name; a step of 5 % is none.
func TestDiffClocks(t *testing.T) {
	clocked := func(id byte, uuid string, mhz int, reasons ...string) []*Observed {
		return []*Observed{observedRun(t, id, func(docs []*Rank) {
			for _, d := range docs {
				h := History{Processes: []ProcessHistory{}}
				for point := 1; point <= 3; point++ {
					reading := HostReading{GPUs: []GPUReading{{UUID: uuid, SM: &mhz, Throttle: reasons}}}
					h.Points = append(h.Points, PointEvidence{BenchmarkID: point, Before: reading, After: reading})
				}
				d.FPMRun = h
			}
		})}
	}
	for _, c := range []struct {
		name string
		new  []*Observed
		want string
	}{
		{"another GPU", clocked('b', "GPU-2", 1950), "clocks identical"},
		{"lower", clocked('b', "GPU-1", 1500), "clocks differ at 3 of 3 points"},
		{"held down", clocked('b', "GPU-1", 1980, "sw_power_cap"), "clocks differ at 3 of 3 points"},
		{"idle is no reason", clocked('b', "GPU-1", 1980, "gpu_idle"), "clocks identical"},
	} {
		d, err := NewDiff(clocked('a', "GPU-1", 1980), c.new)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Verdicts[4].String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// noisy are launches of n points on two ranks whose times scatter by 4 %, 3 in 100 of them by far more, as those of a busy host do.
func noisy(random *rand.Rand, launches, n int, name string, slow func(point int) float64) []*Observed {
	all := make([]*Observed, launches)
	for l := range all {
		o := &Observed{Path: fmt.Sprint(name, l), RunID: fmt.Sprint(name, l)}
		for i := range 2 * n {
			wall := 0.001 * float64(i/2+1) * math.Exp(0.04*random.NormFloat64()) * slow(i/2)
			if random.Float64() < 0.03 {
				wall *= 1 + 2*random.Float64()
			}
			p := Point{PointType: Decode, BatchSize: i/2 + 1, BenchmarkID: i/2 + 1}
			o.Points = append(o.Points, Observation{Point: p, Key: fmt.Sprint("point", i/2), Rank: i % 2, Wall: Float(wall), Samples: []Float{Float(wall)}})
		}
		all[l] = o
	}
	return all
}

// One slowed point of 40 is named, and no other, in each of 20 comparisons; without one nothing is.
func TestDiffNamesTheSlowedPoint(t *testing.T) {
	for seed := range uint64(20) {
		for _, slowed := range []int{17, -1} {
			random := rand.New(rand.NewPCG(seed, 1))
			same := func(int) float64 { return 1 }
			slow := func(point int) float64 {
				if point == slowed {
					return 1.5
				}
				return 1
			}
			d, err := NewDiff(noisy(random, 5, 40, "a", same), noisy(random, 5, 40, "b", slow))
			if err != nil {
				t.Fatal(err)
			}
			named := map[string]bool{}
			for _, p := range d.Pairs {
				if p.Moved || p.Stands {
					named[p.PointKey] = true
				}
			}
			want := 0
			if slowed >= 0 {
				want = 1
			}
			if len(named) != want || d.Moved != want || want == 1 && !named["point17"] || !d.Enough {
				t.Errorf("seed %d, slowed %d: named %v, %d moved", seed, slowed, named, d.Moved)
			}
			if slower, all := d.FailsOver(0.05); len(slower) > 0 != (want == 1) || all {
				t.Errorf("seed %d, slowed %d: fails over 5 %% for %d pairs, all %v", seed, slowed, len(slower), all)
			}
		}
	}
}

// All points together count for the limit also when no single one can be told.
func TestDiffShift(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	d, err := NewDiff(noisy(random, 1, 40, "a", func(int) float64 { return 1 }), noisy(random, 1, 40, "b", func(int) float64 { return 1.2 }))
	if err != nil {
		t.Fatal(err)
	}
	if _, all := d.FailsOver(0.05); !all || d.Enough {
		t.Errorf("20 %% slower: all %v, shift %+v", all, *d.Shift)
	}
	if _, all := d.FailsOver(0.5); all {
		t.Errorf("20 %% is over 50 %%: %+v", *d.Shift)
	}
}

// What two sides do not share is told, and nothing in common is an error.
func TestDiffUnpaired(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	same := func(int) float64 { return 1 }
	d, err := NewDiff(noisy(random, 1, 3, "a", same), noisy(random, 1, 5, "b", same))
	if err != nil || len(d.Pairs) != 6 || len(d.OnlyNew) != 4 || len(d.OnlyOld) != 0 {
		t.Errorf("%v: %+v", err, d)
	}
	other := noisy(random, 1, 3, "c", same)
	for i := range other[0].Points {
		other[0].Points[i].Key += "x"
	}
	if _, err := NewDiff(noisy(random, 1, 3, "a", same), other); err == nil || !strings.Contains(err.Error(), "no point in common") {
		t.Errorf("disjoint: %v", err)
	}
}
