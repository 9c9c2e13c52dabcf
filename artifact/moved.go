package artifact

import (
	"fmt"
	"math"
	"slices"
)

// Noise is what a pair's ratio is compared with.
type Noise struct {
	Launch Float `json:"between_launches"` // relative standard deviation of one launch's time, over all points; 0 with too few launches
	Ratios Float `json:"of_ratios"`        // the same of the pairs' ratios around their median
	Limit  Float `json:"limit"`            // in standard deviations; chosen so that of all pairs together 1 in 1,000 comparisons names one by chance
}

// Shift is how all points together moved.
type Shift struct {
	Ratio Float `json:"ratio"` // median of the pairs' ratios
	Low   Float `json:"low"`   // of its interval at 95 %, by order statistics
	High  Float `json:"high"`
}

// Bounds of what moved.
const (
	enoughLaunches = 3     // on each side: fewer leave the spread between launches open
	smallestMove   = 0.01  // a smaller one is nobody's concern
	familyError    = 0.001 // chance that any pair is named in a comparison of equals
	madToSigma     = 1.4826
	tailFactor     = 2 // one launch's times have longer tails than the normal distribution that the limit is of
)

// judge decides which pairs moved.
//
// With enough launches a pair moved when the ranges of its two sides (quiet times) do not overlap and the difference of their log medians is beyond the limit, a
// two-sided normal quantile at familyError by Bonferroni, times its standard error: sqrt(pi/2) s sqrt(1/n + 1/m), where s is the larger of the pair's
// own spread and that of all pairs, the latter from the median absolute deviation, and larger by 2/n, since few launches show less than their spread. With fewer launches the only noise to compare with is that of the
// other pairs' ratios: a pair whose ratio is far outside (twice the limit), whose samples do not overlap and that the evidence of host and process does
// not explain stands out.
func (d *Diff) judge() {
	var logs, residuals []float64
	d.Enough = true
	for i := range d.Pairs {
		p := &d.Pairs[i]
		if p.Ratio > 0 {
			logs = append(logs, math.Log(float64(p.Ratio)))
		}
		d.Enough = d.Enough && min(p.Old.Launches, p.New.Launches) >= enoughLaunches
		residuals = append(append(residuals, p.Old.residuals()...), p.New.residuals()...)
	}
	limit := math.Sqrt2 * math.Erfinv(1-familyError/float64(len(d.Pairs)))
	d.Noise.Limit = Float(limit)
	pooled := madToSigma * medianOfAll(residuals)
	d.Noise.Launch = Float(pooled)
	if len(logs) == 0 {
		return
	}
	d.Shift = shift(logs)
	centre := math.Log(float64(d.Shift.Ratio))
	deviations := make([]float64, len(logs))
	for i, l := range logs {
		deviations[i] = math.Abs(l - centre)
	}
	ratios := bulk(deviations)
	d.Noise.Ratios = Float(ratios)
	points := map[string]bool{}
	for i := range d.Pairs {
		p := &d.Pairs[i]
		if p.Ratio <= 0 {
			continue
		}
		move := math.Log(float64(p.Ratio))
		if min(p.Old.Launches, p.New.Launches) >= enoughLaunches {
			s := max(pooled, p.Old.deviation(), p.New.deviation()) * (1 + 2/float64(min(len(p.Old.Times), len(p.New.Times))))
			se := math.Sqrt(math.Pi/2) * s * math.Sqrt(1/float64(len(p.Old.Times))+1/float64(len(p.New.Times)))
			p.Moved = math.Abs(move) > max(limit*se, smallestMove) && p.Old.apart(&p.New)
		} else {
			p.Stands = math.Abs(move-centre) > max(tailFactor*limit*ratios, smallestMove) && p.Old.apart(&p.New) && len(p.Causes) == 0
		}
		if p.Moved || p.Stands {
			points[fmt.Sprintf("%s/%d", p.PointKey, p.Nth)] = true
		}
	}
	d.Moved = len(points)
}

// quiet are a side's sorted times, from five launches on without the slowest: a busy host only adds time, and one launch in five that it hit is no
// reason to see nothing.
func (s *Side) quiet() []Float {
	sorted := slices.Sorted(slices.Values(s.Times))
	if s.Launches >= 5 {
		sorted = sorted[:len(sorted)-1]
	}
	return sorted
}

// residuals are a side's absolute log deviations from its median, of its quiet times; nil with too few launches.
func (s *Side) residuals() []float64 {
	if s.Launches < enoughLaunches || s.Median <= 0 {
		return nil
	}
	var all []float64
	for _, t := range s.quiet() {
		if t > 0 {
			all = append(all, math.Abs(math.Log(float64(t/s.Median))))
		}
	}
	return all
}

// deviation is a side's standard deviation of log times.
func (s *Side) deviation() float64 {
	sum, residuals := 0.0, s.residuals()
	for _, r := range residuals {
		sum += r * r
	}
	return math.Sqrt(sum / float64(max(1, len(residuals)-1)))
}

// apart reports whether the ranges of two sides' quiet times do not overlap.
func (s *Side) apart(other *Side) bool {
	a, b := s.quiet(), other.quiet()
	return a[len(a)-1] < b[0] || b[len(b)-1] < a[0]
}

// shift is the median of log ratios with its interval from order statistics.
func shift(logs []float64) *Shift {
	sorted := slices.Sorted(slices.Values(logs))
	n := float64(len(sorted))
	half := 1.96 * math.Sqrt(n) / 2
	low, high := max(0, int(math.Floor(n/2-half))), min(len(sorted)-1, int(math.Ceil(n/2+half)))
	exp := func(l float64) Float { return Float(math.Exp(l)) }
	return &Shift{Ratio: exp(medianOf(sorted)), Low: exp(sorted[low]), High: exp(sorted[high])}
}

// bulk is the standard deviation of a normal distribution that has the same median or 80 % quantile of absolute deviations as these, whichever is larger:
// the median alone says nothing when half of the pairs agree exactly, and the quantile leaves a fifth of them to be outliers.
func bulk(deviations []float64) float64 {
	sorted := slices.Sorted(slices.Values(deviations))
	return max(madToSigma*medianOf(sorted), sorted[len(sorted)*4/5]/1.2816)
}

// medianOfAll is the median, 0 without any.
func medianOfAll(numbers []float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	return medianOf(slices.Sorted(slices.Values(numbers)))
}
