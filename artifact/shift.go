package artifact

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Shift is how all points together moved.
type Shift struct {
	Ratio Float `json:"ratio"` // new by old
	Low   Float `json:"low"`   // of its interval at 95 %
	High  Float `json:"high"`
}

// shiftConfidence is that of a shift's interval.
const shiftConfidence = 0.95

// shift is how all points moved, nil when no pair has times. With two launches or more on each side it is the difference of the launches' levels, with
// Student's interval: what slows one launch down slows all its points, so that the points of one launch are one observation of it. With fewer it is the
// median ratio, and the interval holds for these launches only.
func (d *Diff) shift() *Shift {
	var ratios []float64
	levels := map[bool]map[int][]float64{false: {}, true: {}} // by side, new or not, and launch
	for i := range d.Pairs {
		p := &d.Pairs[i]
		if p.Ratio <= 0 {
			continue
		}
		ratios = append(ratios, math.Log(float64(p.Ratio)))
		usual := medianOfAll(append(logs(p.Old.timed), logs(p.New.timed)...))
		for fresh, times := range map[bool][]timed{false: p.Old.timed, true: p.New.timed} {
			for _, t := range times {
				levels[fresh][t.launch] = append(levels[fresh][t.launch], t.log-usual)
			}
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	old, fresh := medians(levels[false]), medians(levels[true])
	n, m := float64(len(old)), float64(len(fresh))
	if min(n, m) < 2 {
		return medianShift(ratios)
	}
	before, varianceBefore := stat.MeanVariance(old, nil)
	after, varianceAfter := stat.MeanVariance(fresh, nil)
	se := math.Sqrt(((n-1)*varianceBefore + (m-1)*varianceAfter) / (n + m - 2) * (1/n + 1/m))
	half := se * distuv.StudentsT{Sigma: 1, Nu: n + m - 2}.Quantile((1+shiftConfidence)/2)
	return newShift(after-before, after-before-half, after-before+half)
}

// medians is the median of each launch's numbers.
func medians(launches map[int][]float64) []float64 {
	var all []float64
	for _, numbers := range launches {
		all = append(all, medianOfAll(numbers))
	}
	slices.Sort(all) // sums are taken in one order
	return all
}

// medianShift is the median of log ratios with its interval from order statistics.
func medianShift(ratios []float64) *Shift {
	sorted := slices.Sorted(slices.Values(ratios))
	n := float64(len(sorted))
	half := distuv.UnitNormal.Quantile((1+shiftConfidence)/2) * math.Sqrt(n) / 2
	low, high := max(0, int(math.Floor(n/2-half))), min(len(sorted)-1, int(math.Ceil(n/2+half)))
	return newShift(medianOf(sorted), sorted[low], sorted[high])
}

func newShift(ratio, low, high float64) *Shift {
	return &Shift{Ratio: Float(math.Exp(ratio)), Low: Float(math.Exp(low)), High: Float(math.Exp(high))}
}
