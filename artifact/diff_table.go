package artifact

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// mostDetails is how many differences are printed below a verdict.
const mostDetails = 8

// String is the verdict in a line.
func (v Verdict) String() string {
	switch {
	case v.Result == Differ && v.Points > 0:
		return fmt.Sprintf("%s %s at %d of %d points", v.Aspect, v.verb(), v.Points, v.Of)
	case v.Result == Differ:
		return v.Aspect + " " + v.verb()
	case v.Result == Unknown && v.Unknown == v.Of:
		return v.Aspect + " unknown: not recorded on both sides"
	case v.Unknown > 0:
		return fmt.Sprintf("%s %s where recorded, unknown at %d of %d points", v.Aspect, Identical, v.Unknown, v.Of)
	}
	return v.Aspect + " " + v.Result
}

// verb goes with the aspect: inputs differ, the dispatch differs.
func (v Verdict) verb() string {
	if v.Aspect == AspectInputs || v.Aspect == AspectClocks {
		return Differ
	}
	return Differ + "s"
}

// FailsOver reports whether a point that moved, or all points together, became slower by more than a fraction. All points together count by the lower end of
// their interval.
func (d *Diff) FailsOver(limit float64) (slower []Pair, all bool) {
	for _, p := range d.Pairs {
		if (p.Moved || p.Stands) && float64(p.Ratio) > 1+limit {
			slower = append(slower, p)
		}
	}
	return slower, d.Shift != nil && float64(d.Shift.Low) > 1+limit
}

// Conclusion says in a line what the differences of time go with.
func (d *Diff) Conclusion() string {
	same, other := map[string]bool{}, map[string]bool{}
	global := []string{}
	for _, v := range d.Verdicts {
		if v.Result == Differ && v.Points == 0 {
			global = append(global, v.Aspect)
		}
	}
	aspects := slices.Clone(global)
	for _, p := range d.Pairs {
		if !p.Moved && !p.Stands {
			continue
		}
		name := fmt.Sprintf("%s/%d", p.PointKey, p.Nth)
		if len(p.Differs) == 0 && len(global) == 0 {
			same[name] = true
			continue
		}
		other[name] = true
		for _, a := range p.Differs {
			if !slices.Contains(aspects, a) {
				aspects = append(aspects, a)
			}
		}
	}
	verb := "moved"
	if !d.Enough {
		verb = "stands out"
	}
	var parts []string
	if len(same) > 0 {
		parts = append(parts, fmt.Sprintf("same evidence, time %s at %s", verb, count(len(same), "point")))
	}
	if len(other) > 0 {
		parts = append(parts, fmt.Sprintf("time %s at %s where %s differ", verb, count(len(other), "point"), strings.Join(aspects, ", ")))
	}
	if len(parts) == 0 {
		// One launch's interval says nothing of the next.
		if s := d.Shift; s != nil && min(len(d.Old), len(d.New)) > 1 && (s.Low > 1+smallestMove || s.High < 1-smallestMove) {
			return "no point moved beyond the noise, apart from what all points together did"
		}
		return "no point moved beyond the noise"
	}
	return strings.Join(parts, "; ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// WriteText prints the verdicts, what the times did as a whole, and the pairs: those that moved or stand out, with all every one.
func (d *Diff) WriteText(out io.Writer, all bool) error {
	var b strings.Builder
	for _, v := range d.Verdicts {
		fmt.Fprintln(&b, v)
	}
	for _, v := range d.Verdicts {
		for i, text := range v.Details {
			if i == mostDetails {
				fmt.Fprintf(&b, "  %s: and %d more\n", v.Aspect, len(v.Details)-i)
				break
			}
			fmt.Fprintf(&b, "  %s: %s\n", v.Aspect, text)
		}
	}
	for _, note := range d.Notes {
		fmt.Fprintln(&b, "note:", note)
	}
	for i, only := range [][]string{d.OnlyOld, d.OnlyNew} {
		if len(only) > 0 {
			fmt.Fprintf(&b, "only in %s: %d, such as %s\n", []string{"OLD", "NEW"}[i], len(only), only[0])
		}
	}
	if s := d.Shift; s != nil {
		fmt.Fprintf(&b, "all points: new/old %.3f (95 %% interval %.3f to %.3f), %d pairs of point and rank\n", s.Ratio, s.Low, s.High, len(d.Pairs))
	}
	if !d.Enough {
		fmt.Fprintf(&b, "too few launches to tell: %d against %d, want %d on each side\n", len(d.Old), len(d.New), enoughLaunches)
	}
	switch r := d.Noise.Smallest; {
	case r == 0:
		fmt.Fprintf(&b, "no point can be told from noise: with fewer launches that takes %d raw samples of a point on each side, and %d points\n", enoughSamples, enoughPoints)
	case d.Enough:
		fmt.Fprintf(&b, "in this noise half of the points would be named from new/old %.3g or %.3g on\n", r, 1/r)
	default:
		fmt.Fprintf(&b, "in this noise half of the points would stand out from new/old %.3g or %.3g on, unless the evidence of the host explains it\n", r, 1/r)
	}
	fmt.Fprintln(&b, d.Conclusion())
	d.table(&b, all)
	_, err := io.WriteString(out, b.String())
	return err
}

func (d *Diff) table(out io.Writer, all bool) {
	var shown []*Pair
	for i := range d.Pairs {
		if p := &d.Pairs[i]; all || p.Moved || p.Stands {
			shown = append(shown, p)
		}
	}
	if len(shown) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "id\ttype\tbatch\tnew\tkv\trank\told ms\tnew ms\tratio\tspread old %\tnew %\tn old\tnew\t  what")
	for _, p := range shown {
		what := strings.Join(append(slices.Clone(p.Differs), p.Causes...), "; ")
		if what == "" {
			what = "same evidence"
		}
		switch {
		case p.Moved:
			what = "moved: " + what
		case p.Stands:
			what = "stands out: " + what
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%d\t%.4f\t%.4f\t%.3f\t%.1f\t%.1f\t%d\t%d\t  %s\n", p.BenchmarkID, p.PointType, p.BatchSize, p.NewTokens, p.KVTokens, p.DPRank,
			1e3*p.Old.Median, 1e3*p.New.Median, p.Ratio, 100*p.Old.Spread, 100*p.New.Spread, len(p.Old.Times), len(p.New.Times), what)
	}
	if err := w.Flush(); err != nil {
		return // a strings.Builder never fails
	}
}
