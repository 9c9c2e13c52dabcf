package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

// rival is a threshold whose two sides can be timed against each other.
type rival struct {
	name string
	op   string
	from int // bytes, smallest size tried
	set  func(t *collective.Thresholds, bytes int)
	get  func(t collective.Thresholds) int
}

var rivals = []rival{
	{"Chain", "broadcast", 16 << 10, func(t *collective.Thresholds, b int) { t.Chain = b }, func(t collective.Thresholds) int { return t.Chain }},
	{"Direct", "gather", 4 << 10, func(t *collective.Thresholds, b int) { t.Direct = b }, func(t collective.Thresholds) int { return t.Direct }},
	{"Bruck", "allgather", 1 << 10, func(t *collective.Thresholds, b int) { t.Bruck = b }, func(t collective.Thresholds) int { return t.Bruck }},
	{"Doubling", "allreduce", 4 << 10, func(t *collective.Thresholds, b int) { t.Doubling = b }, func(t collective.Thresholds) int { return t.Doubling }},
}

const sizesTried = 8 // each twice the one before

// suggestion is a threshold that this machine would like.
type suggestion struct {
	name     string
	bytes    int // the largest size for the first algorithm; 0 = none of those tried
	times    [sizesTried][2]float64
	smallest int
}

// suggest times both algorithms at sizes around the threshold, in two worlds that differ in it alone.
func suggest(ctx context.Context, join func(collective.Thresholds) (*collective.Comm, error), r rival, limit time.Duration) (suggestion, error) {
	s := suggestion{name: r.name, smallest: r.from}
	for side, threshold := range []int{math.MaxInt, 1} { // all sizes are small, or all are large
		var t collective.Thresholds
		r.set(&t, threshold)
		comm, err := join(t)
		if err != nil {
			return s, err
		}
		b := &bench{comm: comm}
		for i := range sizesTried {
			took, err := b.measure(ctx, cell{r.op, r.from << i}, limit)
			if err != nil {
				return s, err
			}
			s.times[i][side] = took.Median
		}
		if err := comm.Close(); err != nil { //nolint:contextcheck // leaving is bounded by the linger
			return s, err
		}
	}
	if n := split(s.times[:]); n > 0 {
		s.bytes = r.from << (n - 1)
	}
	return s, nil
}

// split is how many of the sizes, from the smallest, the first side should get, so that the times lose least to the better side
// of each, as a ratio, all in all.
func split(times [][2]float64) int {
	loss := 0.0
	for _, t := range times {
		loss += math.Log(t[1])
	}
	best, least := 0, loss
	for i, t := range times {
		loss += math.Log(t[0]) - math.Log(t[1])
		if loss < least {
			best, least = i+1, loss
		}
	}
	return best
}

// String is a few lines: the times of both sides, then the suggestion.
func (s suggestion) String() string {
	text := fmt.Sprintf("%s: bytes, microseconds of the algorithm for smaller sizes, for larger ones\n", s.name)
	for i, t := range s.times {
		text += fmt.Sprintf("%12d %12.1f %12.1f\n", s.smallest<<i, t[0], t[1])
	}
	switch s.bytes {
	case 0:
		return text + fmt.Sprintf("suggested: Thresholds.%s below %d\n", s.name, s.smallest)
	case s.smallest << (sizesTried - 1):
		return text + fmt.Sprintf("suggested: Thresholds.%s = %d or more\n", s.name, s.bytes)
	}
	return text + fmt.Sprintf("suggested: Thresholds.%s = %d\n", s.name, s.bytes)
}
