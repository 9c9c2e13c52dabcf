package collective

import (
	"testing"
	"time"
)

// Only operations whose yields each ran somebody else count, only many in a row, and moves become rare.
func TestSharedCPUIsNoticed(t *testing.T) {
	const us = time.Microsecond
	now := time.Unix(0, 0)
	var s sharing
	run := func(times int, took time.Duration, yields int) (moves int) {
		for range times {
			now = now.Add(took)
			if s.seen(now, took, yields) {
				moves++
			}
		}
		return moves
	}
	for _, c := range []struct {
		name   string
		times  int
		took   time.Duration
		yields int
		want   int
	}{
		{"alone: yields return at once", 1000, 8 * us, 6, 0},
		{"no yields", 1000, 8 * us, 0, 0},
		{"late peers", 1000, time.Millisecond, 3, 0},
		{"shared, but not often", sharedOften - 1, 25 * us, 2, 0},
		{"one alone in between", 1, 8 * us, 6, 0},
		{"shared, and often", sharedOften, 25 * us, 2, 1},
		{"again at once", 1000, 25 * us, 2, 0},
		{"again after the pause", 2000, 25 * us, 2, 1},
		{"after a longer pause", 2000, 25 * us, 2, 0},
		{"at least every ten seconds", 1_000_000, 25 * us, 2, 8},
	} {
		if got := run(c.times, c.took, c.yields); got != c.want {
			t.Errorf("%s: %d moves, want %d", c.name, got, c.want)
		}
	}
}
