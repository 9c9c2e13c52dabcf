package artifact

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Noise is what moves are compared with: differences of log times, which read as fractions while they are small.
type Noise struct {
	Launch   Float `json:"between_launches"` // standard deviation of one launch's time, over all pairs; 0 with too few launches
	Ratios   Float `json:"of_ratios"`        // of the pairs' moves around their median; 0 with too few points
	Limit    Float `json:"limit"`            // in standard errors, of most pairs; 0 when none can be judged
	Smallest Float `json:"smallest_ratio"`   // new by old from which on half of the pairs would be named, or below its inverse; 0 when none can be judged
}

// Bounds of what moved.
const (
	enoughLaunches = 3      // on each side: fewer leave the spread between launches open
	enoughSamples  = 5      // raw ones on each side, where the launches are too few
	enoughPoints   = 5      // fewer can't tell a point that moved from a shift of all points
	smallestMove   = 0.01   // a smaller one is nobody's concern
	familyError    = 0.01   // chance that any point is named in a comparison of equals whose noise is normal
	guardPart      = 0.5    // of the move that the fastest times and the medians show at least
	widestScatter  = 2      // multiple of the launches' own noise up to which the scatter of the moves counts
	tailFactor     = 2      // one launch's times have longer tails than the distribution that the limit is of
	madToSigma     = 1.4826 // of a normal distribution
)

// judge decides which points moved.
//
// A busy host makes single steps many times slower, one launch slower than the next, and in quiet moments some steps faster; a test for normal samples names
// such points. So log times are compared, less the level of their launch and rank (levels):
//
//   - The move is the Hodges-Lehmann estimate, the median of all differences of a new and an old time.
//   - Guards: the fastest times, the medians, and the medians of the times as they were must each show guardPart of the move; a move counts as no more than they
//     allow. Strays that are slow do not reach the fastest time of a side, and those that are fast not its median.
//   - The standard error is that of n and m times with the standard deviation of this pair's more varied side, or of all pairs together if that is larger,
//     and not below the scatter of all pairs' moves; that counts only up to widestScatter times the former, so that many points that moved do not hide
//     each other. Standard deviations are taken from median absolute ones.
//   - The limit is Student's quantile at n+m-2 degrees of freedom for familyError, by Bonferroni over all that is tested.
//
// Tested are the pairs and, with several ranks, each point's mean over them, which is steadier when all ranks moved and counts their common noise once.
//
// With too few launches on a side the times are raw samples. They do not show how much launches differ: the scatter of all pairs' moves then counts in full and
// gives the degrees of freedom, and the limit is tailFactor times as high. What is beyond it and not explained by the evidence of host and process only stands out.
//
// Sources: Hodges and Lehmann 1963 for the estimate, Hampel 1974 for the deviation, both in Huber and Ronchetti, Robust Statistics, 2nd edition, chapters 1 and 3;
// Dunn 1961 for the family of tests.
func (d *Diff) judge() {
	d.Enough = true
	for i := range d.Pairs {
		d.Enough = d.Enough && d.Pairs[i].launches() >= enoughLaunches
	}
	few := !d.levels()
	d.Shift = d.shift()
	launches, samples := family{launches: true}, family{}
	for _, s := range d.series() {
		switch times := min(len(s.old), len(s.fresh)); {
		case s.launches >= enoughLaunches && times >= enoughLaunches:
			launches.series = append(launches.series, s)
		case s.launches < enoughLaunches && times >= enoughSamples && !few:
			samples.series = append(samples.series, s)
		}
	}
	points := map[string]bool{}
	for _, f := range []*family{&launches, &samples} {
		f.measure(few)
		for _, s := range f.series {
			for _, p := range s.pairs {
				if !s.named || !p.follows(s) || !f.launches && len(p.Causes) > 0 {
					continue
				}
				p.Moved, p.Stands = f.launches, !f.launches
				points[p.point()] = true
			}
		}
	}
	d.Moved = len(points)
	most := &launches
	if len(most.series) == 0 {
		most = &samples
	}
	d.Noise = Noise{Launch: Float(launches.pooled), Ratios: Float(most.scatter), Limit: Float(most.limit)}
	if most.limit > 0 {
		d.Noise.Smallest = Float(math.Exp(most.smallest))
	}
}

// launches is how many there are on the side with fewer.
func (p *Pair) launches() int { return min(p.Old.Launches, p.New.Launches) }

// follows reports whether a pair moved as a series of which it is part did: a rank that did not is not named with the others.
func (p *Pair) follows(s *series) bool {
	return p.move*s.move > 0 && math.Abs(p.move) >= guardPart*math.Abs(s.move)
}

// family is the series that one kind of noise is estimated from.
type family struct {
	series   []*series
	launches bool // their times are of launches, not raw samples

	pooled   float64 // standard deviation of one time
	scatter  float64 // of the moves
	limit    float64 // of the first series
	smallest float64 // move that half of the pairs would be named from
}

// measure estimates the noise and names the series that are beyond it. With few points there is no scatter.
func (f *family) measure(few bool) {
	var residuals, moves, beyond []float64
	for _, s := range f.series {
		if s.estimate(); len(s.pairs) == 1 {
			residuals, moves = append(residuals, s.residuals...), append(moves, s.move)
			s.pairs[0].move = s.move
		}
	}
	if !f.launches && len(moves) < enoughPoints {
		return
	}
	f.pooled = madToSigma * medianOfAll(residuals)
	if !few {
		f.scatter = madToSigma * medianOfAll(deviations(moves))
	}
	for _, s := range f.series {
		n, m := float64(len(s.old)), float64(len(s.fresh))
		se, degrees, factor := max(f.pooled, s.own)*math.Sqrt(1/n+1/m), n+m-2, 1.0
		if f.launches {
			se = max(se, min(f.scatter, widestScatter*se))
		} else {
			se, degrees, factor = max(se, f.scatter), float64(len(moves)-1), tailFactor
		}
		limit := factor * distuv.StudentsT{Sigma: 1, Nu: degrees}.Quantile(1-familyError/2/float64(len(f.series)))
		if f.limit == 0 {
			f.limit = limit
		}
		named := max(limit*se, smallestMove)
		s.named = s.guarded > named
		if len(s.pairs) == 1 {
			beyond = append(beyond, named)
		}
	}
	f.smallest = medianOfAll(beyond)
}
