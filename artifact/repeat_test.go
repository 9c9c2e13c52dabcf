package artifact

import (
	"math"
	"strings"
	"testing"
)

// launched is the merged document of a launch of two ranks, with the wall times of its three points scaled. Points may be left out at the end.
func launched(t *testing.T, scale []float64, reversed bool) *Document {
	t.Helper()
	docs := run(t, 2)
	var groups []Group
	for i, f := range scale {
		g := docs[0].Groups[i]
		g.WallTime = Float(f)
		groups = append(groups, g)
	}
	if reversed {
		groups[1], groups[2] = groups[2], groups[1]
	}
	doc, err := ParseDocument("launch/benchmark_merged.json", []byte(jsonText(t, map[string]any{"run_id": "ab", "status": "complete", "iteration_groups": groups})))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestRepeat(t *testing.T) {
	limit := Float(0.05)
	r := NewRepeat(4, "abba", &limit, nil)
	add := func(order string, reversed bool, walls ...float64) {
		t.Helper()
		if err := r.Add(launched(t, walls, reversed), order); err != nil {
			t.Fatal(err)
		}
	}
	add("a", false, 1, 2, 3)
	if over, of := r.Over(0); len(over) != 0 || of != 0 {
		t.Errorf("one launch has a spread: %v of %d", over, of)
	}
	add("b", true, 1, 2.2, 6)
	add("b", false, 1) // stopped early
	if n := len(r.Points); n != 3 || len(r.Launches) != 3 || r.Launches[2].Points != 1 {
		t.Fatalf("%d points, launches %+v", n, r.Launches)
	}
	for i, want := range []string{"[1.0,1.0,1.0]", "[2.0,2.2,null]", "[3.0,6.0,null]"} {
		if got := jsonText(t, r.Points[i].WallTimes); got != want {
			t.Errorf("point %d: %s, want %s", i, got, want)
		}
	}
	// Two values a and b: the standard deviation of a sample is |a-b|/sqrt 2.
	for i, want := range []float64{0, 0.2 / math.Sqrt2 / 2.1, 3 / math.Sqrt2 / 4.5} {
		if got := float64(*r.Points[i].CV); math.Abs(got-want) > 1e-12 {
			t.Errorf("point %d: CV %v, want %v", i, got, want)
		}
	}
	over, of := r.Over(0.05)
	if of != 3 || len(over) != 2 || over[0].KVTokens != 128 || !strings.Contains(over[0].String(), "decode batch_size 2 total_prefill_tokens 0 total_kv_read_tokens 128") {
		t.Errorf("%v of %d are over 5 %%", over, of)
	}
	if over, _ := r.Over(0.5); len(over) != 0 {
		t.Errorf("%v are over 50 %%", over)
	}
}

// Several points of one coordinate in a launch are kept apart.
func TestRepeatOfRepeatedCoordinates(t *testing.T) {
	r := NewRepeat(2, "same", nil, nil)
	for range 2 {
		doc := launched(t, []float64{1, 2, 3}, false)
		doc.groups = append(doc.groups, doc.groups[1])
		if err := r.Add(doc, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.Points) != 4 || r.Points[3].Nth != 1 || r.Points[3].PointKey != r.Points[1].PointKey || len(r.Points[3].WallTimes) != 2 {
		t.Errorf("points %+v", r.Points)
	}
}
