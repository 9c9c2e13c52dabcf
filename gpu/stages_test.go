package gpu

import (
	"slices"
	"testing"
	"time"
)

// A stage that comes again is added to, and keeps its place.
func TestStages(t *testing.T) {
	var s Stages
	s.Add("compile", 3)
	s.Add("capture", 5)
	s.Add("compile", 4)
	if want := (Stages{{"compile", 7}, {"capture", 5}}); !slices.Equal(s, want) {
		t.Errorf("got %v, want %v", s, want)
	}
	begin := Monotonic() - int64(time.Second)
	if next := s.Lap("capture", begin); s[1].Took < 5+time.Second || next <= begin {
		t.Errorf("got %v, next %d", s, next)
	}
}
