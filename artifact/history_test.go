package artifact

import (
	"encoding/json"
	"testing"
)

func TestHistoryOfAJournal(t *testing.T) {
	point := func(id int) JournalPoint { return JournalPoint{Group: Group{BenchmarkID: id}} }
	warm := &LedgerRecord{Kind: WarmupGlobal}
	second := point(7)
	second.Preparation = warm
	j := &Journal{
		Processes: []JournalProcess{{Process: 1, Launch: Launch{RunID: "a"}}, {Process: 2, Launch: Launch{RunID: "b"}}, {Process: 4, Launch: Launch{RunID: "c"}}},
		Points:    []JournalPoint{point(1), point(2), point(3), second, point(5)}, By: []int{0, 0, 0, 2, 2}, Dropped: []int{0, 1, 0},
	}
	h := NewHistory(j)
	h.Add(6, nil)
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Processes []struct {
			Process     int      `json:"process"`
			RunID       string   `json:"run_id"`
			Points      [][2]int `json:"points"`
			Dropped     int      `json:"dropped_points"`
			Preparation *struct{ Kind string }
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if n := len(got.Processes); n != 3 {
		t.Fatalf("%d processes: %s", n, text)
	}
	a, b, c := got.Processes[0], got.Processes[1], got.Processes[2]
	if a.RunID != "a" || len(a.Points) != 1 || a.Points[0] != [2]int{1, 3} || a.Preparation != nil {
		t.Errorf("first process %+v", a)
	}
	if b.Points == nil || len(b.Points) != 0 || b.Dropped != 1 {
		t.Errorf("second process %+v", b)
	}
	if c.Process != 4 || len(c.Points) != 2 || c.Points[0] != [2]int{7, 7} || c.Points[1] != [2]int{5, 6} || c.Preparation == nil || c.Preparation.Kind != WarmupGlobal {
		t.Errorf("third process %+v", c)
	}
}
