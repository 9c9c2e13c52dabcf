package artifact

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// What the ceilings and the ratios are worth.
func TestRooflineVerdict(t *testing.T) {
	for _, c := range []struct {
		name    string
		rates   []Float
		walls   []Float
		because string
		want    string
	}{
		{"good", []Float{100, 97.1}, []Float{0.98, 3}, "", ""},
		{"moved", []Float{100, 96.9, 99}, []Float{2}, "", "moved by 3.1 %"},
		{"moved, and explained", []Float{96, 100}, []Float{0.5}, "caches", "moved by 4.0 %"},
		{"below the floor", []Float{100}, []Float{1, 0.97, 0.5}, "", "2 of 3 points took less than 0.98 of their floor, the first one point 2 with 0.970"},
		{"below, and explained", []Float{100}, []Float{0.5}, "weights of 8 MiB stay in the cache", ""},
	} {
		for _, math := range []bool{false, true} {
			var readings []Ceilings
			for _, rate := range c.rates {
				reading := Ceilings{ReadRate: rate, MathRate: 7}
				if math {
					reading.ReadRate, reading.MathRate = 7, rate
				}
				readings = append(readings, reading)
			}
			r := NewRoofline(readings)
			r.Because = c.because
			for i, wall := range c.walls {
				r.Add(i+1, 1, wall, 0)
			}
			if err := r.Err(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", c.name, err, c.want)
			}
		}
	}
}

// Floors are found again in rank and merged documents, but for those of ranks whose ceilings moved.
func TestFloorsAreRead(t *testing.T) {
	docs := run(t, 3)
	for rank, d := range docs {
		readings := []Ceilings{{ReadRate: 1, MathRate: 1}, {ReadRate: 1, MathRate: 1}}
		if rank == 1 {
			readings[1].MathRate = 2
		}
		r := NewRoofline(readings)
		for _, result := range d.Results {
			r.Add(result.Point.BenchmarkID, Float(rank)+0.25, 1, 0)
		}
		if rank < 2 {
			d.FPMRun = map[string]any{"roofline": r}
		}
	}
	paths := written(t, docs)
	m, err := mergeFiles(t, paths)
	if err != nil {
		t.Fatal(err)
	}
	merged := filepath.Join(t.TempDir(), "merged.json")
	if err := WriteFile(merged, m); err != nil {
		t.Fatal(err)
	}
	want := map[int]Float{1: 0.25, 2: 0.25, 3: 0.25}
	for _, path := range []string{paths[0], merged} {
		o, err := Observe(path)
		if err != nil {
			t.Fatal(err)
		}
		got := map[int]map[int]Float{}
		for _, p := range o.Points {
			if got[p.Rank] == nil {
				got[p.Rank] = map[int]Float{}
			}
			got[p.Rank][p.Point.BenchmarkID] = p.Floor
		}
		if !maps.Equal(got[0], want) || got[1][1] != 0 || got[2][1] != 0 {
			t.Errorf("%s: %v", filepath.Base(path), got)
		}
	}
}
