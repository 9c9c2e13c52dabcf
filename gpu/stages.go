package gpu

import (
	"slices"
	"time"
)

// Staged is an engine that knows what its preparation took.
type Staged interface {
	// Stages are the parts of the preparation so far, in the order in which they first began. What Prepare does counts too.
	Stages() []Stage
}

// Stage is one part of an engine's preparation.
type Stage struct {
	Name string
	Took time.Duration // in all, where it came more than once
}

// Stages collects what a preparation takes. The zero value is empty.
type Stages []Stage

// Add adds to a stage.
func (s *Stages) Add(name string, took time.Duration) {
	at := slices.IndexFunc(*s, func(one Stage) bool { return one.Name == name })
	if at < 0 {
		at = len(*s)
		*s = append(*s, Stage{Name: name})
	}
	(*s)[at].Took += took
}

// Lap adds the time since a stamp of Monotonic to a stage, and returns a stamp for the next one.
func (s *Stages) Lap(name string, since int64) int64 {
	now := Monotonic()
	s.Add(name, time.Duration(now-since))
	return now
}
