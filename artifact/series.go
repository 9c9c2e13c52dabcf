package artifact

import (
	"fmt"
	"math"
	"slices"
)

// timed is the logarithm of one time of a side.
type timed struct {
	launch, nth int // nth of the side's times of this launch
	log         float64
	level       float64 // of its launch and rank
}

// series is the log times of a pair, or the means of a point over its ranks, on both sides and less the levels of their launches.
type series struct {
	pairs      []*Pair
	launches   int // on the side with fewer
	old, fresh []float64
	whole      float64 // the move with the levels, of medians

	residuals []float64 // absolute deviations from the sides' medians, enlarged for these having been fitted
	own       float64   // standard deviation of the side that varies more
	move      float64   // Hodges-Lehmann estimate
	guarded   float64   // as much of it, without its sign, as the guards bear out
	named     bool
}

// levels finds how much slower or faster each launch was at each rank than the others were: within a side the median over the launch's times of what they are
// above the medians of their pairs and sides, and for the new side the median of the pairs' moves. A rank with too few points has none; it reports whether
// any has.
func (d *Diff) levels() (some bool) {
	ranks := map[int][]*Pair{}
	for i := range d.Pairs {
		ranks[d.Pairs[i].DPRank] = append(ranks[d.Pairs[i].DPRank], &d.Pairs[i])
	}
	for _, pairs := range ranks {
		if len(pairs) < enoughPoints {
			continue
		}
		some = true
		sides := [2][][]timed{}
		for _, p := range pairs {
			sides[0], sides[1] = append(sides[0], p.Old.timed), append(sides[1], p.New.timed)
		}
		for _, side := range sides {
			above := map[int][]float64{} // by launch
			for _, times := range side {
				usual := medianOfAll(logs(times))
				for _, t := range times {
					above[t.launch] = append(above[t.launch], t.log-usual)
				}
			}
			for _, times := range side {
				for k := range times {
					times[k].level = medianOfAll(above[times[k].launch])
				}
			}
		}
		var moves []float64
		for i := range pairs {
			moves = append(moves, medianOfAll(logs(sides[1][i]))-medianOfAll(logs(sides[0][i])))
		}
		together := medianOfAll(moves)
		for _, times := range sides[1] {
			for k := range times {
				times[k].level += together
			}
		}
	}
	return some
}

// series lists what is tested: each pair, in their order, and the means of the points that several ranks measured.
func (d *Diff) series() []*series {
	var all []*series
	ranks, order := map[string][]*Pair{}, []string{}
	for i := range d.Pairs {
		p := &d.Pairs[i]
		if p.Ratio <= 0 {
			continue
		}
		all = append(all, &series{pairs: []*Pair{p}, launches: p.launches(), old: logs(p.Old.timed), fresh: logs(p.New.timed), whole: math.Log(float64(p.Ratio))})
		if ranks[p.point()] == nil {
			order = append(order, p.point())
		}
		ranks[p.point()] = append(ranks[p.point()], p)
	}
	for _, point := range order {
		if pairs := ranks[point]; len(pairs) > 1 {
			all = append(all, means(pairs))
		}
	}
	return all
}

// point names the pair's point.
func (p *Pair) point() string { return fmt.Sprintf("%s/%d", p.PointKey, p.Nth) }

// means is the series of the means over a point's ranks: of the times that all of them have.
func means(pairs []*Pair) *series {
	s := &series{pairs: pairs, launches: pairs[0].launches()}
	sides := [2][][]timed{}
	for _, p := range pairs {
		s.launches = min(s.launches, p.launches())
		s.whole += math.Log(float64(p.Ratio)) / float64(len(pairs))
		sides[0], sides[1] = append(sides[0], p.Old.timed), append(sides[1], p.New.timed)
	}
	for i, out := range []*[]float64{&s.old, &s.fresh} {
		type place struct{ launch, nth int }
		sums, counts := map[place]float64{}, map[place]int{}
		for _, times := range sides[i] {
			for _, t := range times {
				at := place{t.launch, t.nth}
				sums[at] += t.log - t.level
				counts[at]++
			}
		}
		for _, t := range sides[i][0] {
			if at := (place{t.launch, t.nth}); counts[at] == len(pairs) {
				*out = append(*out, sums[at]/float64(len(pairs)))
			}
		}
	}
	return s
}

// estimate computes the move and what it is judged by.
func (s *series) estimate() {
	slices.Sort(s.old)
	slices.Sort(s.fresh)
	if len(s.old) == 0 || len(s.fresh) == 0 {
		return
	}
	s.move = medianDifference(s.old, s.fresh)
	s.guarded = math.Abs(s.move)
	for _, shown := range []float64{s.fresh[0] - s.old[0], medianOf(s.fresh) - medianOf(s.old), s.whole} {
		s.guarded = min(s.guarded, math.Copysign(1, s.move)*shown/guardPart)
	}
	n := float64(len(s.old) + len(s.fresh))
	for _, side := range [][]float64{s.old, s.fresh} {
		residuals := deviations(side)
		for i := range residuals {
			residuals[i] *= math.Sqrt(n / max(1, n-2))
		}
		s.residuals = append(s.residuals, residuals...)
		s.own = max(s.own, madToSigma*medianOfAll(residuals))
	}
}

// precision is how close medianDifference comes: far below any time's own.
const precision = 1e-12

// medianDifference is the median of all differences of an element of b and one of a, both sorted. There are too many to list for thousands of raw samples, so
// it is searched by bisection: how many are at most some number is counted in one walk along both.
func medianDifference(a, b []float64) float64 {
	total := len(a) * len(b)
	within := func(limit float64) (count int) {
		j := 0
		for _, x := range a {
			for j < len(b) && b[j]-x <= limit {
				j++
			}
			count += j
		}
		return count
	}
	at := func(rank int) float64 { // counted from 1
		low, high := b[0]-a[len(a)-1], b[len(b)-1]-a[0]
		if within(low) >= rank {
			return low
		}
		for high-low > precision {
			if middle := (low + high) / 2; within(middle) >= rank {
				high = middle
			} else {
				low = middle
			}
		}
		return high
	}
	return (at((total+1)/2) + at(total/2+1)) / 2
}

// logs are the logarithms of times less their levels.
func logs(times []timed) []float64 {
	all := make([]float64, len(times))
	for i, t := range times {
		all[i] = t.log - t.level
	}
	return all
}

// deviations are the numbers' absolute deviations from their median.
func deviations(numbers []float64) []float64 {
	middle := medianOfAll(numbers)
	all := make([]float64, len(numbers))
	for i, number := range numbers {
		all[i] = math.Abs(number - middle)
	}
	return all
}

// medianOf is the middle of sorted numbers, or the mean of the two in the middle.
func medianOf[F ~float64](sorted []F) F {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// medianOfAll is the median, 0 without any.
func medianOfAll(numbers []float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	return medianOf(slices.Sorted(slices.Values(numbers)))
}
