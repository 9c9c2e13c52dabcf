package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

const (
	stretch   = 2 * time.Second // of steps with heartbeats, then of steps while they are held back; Comm.Quiet allows 2.5 s
	stretches = 5               // of each kind
)

// steps is what heartbeats cost a step: CPU work of a fixed length on every rank, then a barrier. Times in microseconds, of the slowest rank.
type steps struct {
	work        time.Duration
	beats, held []float64 // sorted
}

// timeSteps runs stretches of both kinds in turn.
func timeSteps(ctx context.Context, comm *collective.Comm, work time.Duration) (steps, error) {
	s := steps{work: work}
	n := int(stretch / work)
	for i := range 2 * stretches {
		kind := &s.beats
		if i%2 == 1 {
			kind = &s.held
			comm.Quiet(stretch + stretch/5)
		}
		took := make([]float64, n)
		for k := range took {
			start := time.Now()
			for time.Since(start) < work {
			}
			if err := comm.Barrier(ctx); err != nil {
				return s, err
			}
			took[k] = float64(time.Since(start)) / float64(time.Microsecond)
		}
		if err := collective.AllReduceInto(ctx, comm, took, took, collective.Max); err != nil {
			return s, err
		}
		*kind = append(*kind, took...)
	}
	slices.Sort(s.beats)
	slices.Sort(s.held)
	return s, nil
}

// String is a table of two rows and the ratio.
func (s steps) String() string {
	at := func(sorted []float64, q int) float64 { return sorted[len(sorted)*q/100] }
	text := fmt.Sprintf("step of %v and a barrier, us  %8s %10s %10s %10s\n", s.work, "n", "median", "p90", "p99")
	for _, r := range []struct {
		name string
		t    []float64
	}{{"with heartbeats", s.beats}, {"heartbeats held", s.held}} {
		text += fmt.Sprintf("%-29s %8d %10.1f %10.1f %10.1f\n", r.name, len(r.t), at(r.t, 50), at(r.t, 90), at(r.t, 99))
	}
	return text + fmt.Sprintf("ratio of medians %.4f, of 99th percentiles %.4f\n", at(s.beats, 50)/at(s.held, 50), at(s.beats, 99)/at(s.held, 99))
}
