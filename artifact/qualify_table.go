package artifact

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// WriteText prints the verdict with its reasons, how repeatable the points are, the widest of them, and the outliers with what explains them.
func (q *Qualification) WriteText(out io.Writer, most int) error {
	var b strings.Builder
	fmt.Fprintln(&b, q.Comparability)
	for _, reason := range q.Reasons {
		fmt.Fprintln(&b, "  because:", reason)
	}
	kinds := map[string]int{}
	for _, l := range q.Launches {
		kinds[l.Grid]++
	}
	fmt.Fprintf(&b, "%d launches: %d of the full grid, %d of a subset, %d of another\n", len(q.Launches), kinds["full"], kinds["subset"], kinds["other"])
	share := 0.0
	if q.Of > 0 {
		share = 100 * float64(q.Over) / float64(q.Of)
	}
	fmt.Fprintf(&b, "CV over %.4g %%: %d of %d points (%.1f %%)\n", 100*q.Limit, q.Over, q.Of, share)
	if s := q.Subset; s != nil {
		fmt.Fprintf(&b, "subset/full %.3f (95 %% interval %.3f to %.3f)\n", s.Ratio, s.Low, s.High)
	}
	for _, l := range q.Launches {
		if math.Abs(math.Log(float64(l.Level))) > float64(q.Limit) {
			fmt.Fprintf(&b, "%s as a whole: %.3f times the median of the launches\n", l.Path, l.Level)
		}
	}
	unexplained := 0
	for _, o := range q.Outliers {
		if !o.Explained {
			unexplained++
		}
	}
	fmt.Fprintf(&b, "outliers: %d, unexplained: %d\n", len(q.Outliers), unexplained)
	for i, o := range q.Outliers {
		if most > 0 && i == most {
			fmt.Fprintf(&b, "  and %d more\n", len(q.Outliers)-i)
			break
		}
		why := "unexplained"
		if o.Explained {
			why = strings.Join(o.Evidence, "; ")
		}
		fmt.Fprintf(&b, "  %s: point %d (%s) %.4f ms, %.2f times the median: %s\n", o.Path, o.BenchmarkID, o.Point, 1e3*o.WallTime, o.Ratio, why)
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "type\tbatch\tnew\tkv\tlaunches\tmean ms\tCV %\t")
	for i := range q.Points {
		if most > 0 && i == most {
			break
		}
		p := &q.Points[i]
		n := 0
		for _, t := range p.WallTimes {
			if t != nil {
				n++
			}
		}
		cv, fresh := "-", p.NewTokens
		if p.CV != nil {
			cv = fmt.Sprintf("%.1f", 100**p.CV)
		}
		if p.PointType == Decode {
			fresh = p.BatchSize
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.4f\t%s\t\n", p.PointType, p.BatchSize, fresh, p.KVTokens, n, 1e3**p.Mean, cv)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if most > 0 && len(q.Points) > most {
		fmt.Fprintf(&b, "and %d points that vary less\n", len(q.Points)-most)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
