package artifact

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The verdict follows the evidence: contradictions, then what is missing; times are no reason.
func TestQualifyComparability(t *testing.T) {
	for _, c := range []struct {
		name   string
		other  byte // run id
		change func([]*Rank)
		want   string
		reason string
	}{
		{"the same", 'b', nil, Comparable, ""},
		{"one launch twice", 'a', nil, Mismatch, "are one launch"},
		{"another output path", 'b', func(docs []*Rank) {
			for _, d := range docs {
				d.Config.OutputPath = "other_" + d.Config.OutputPath
			}
		}, Comparable, ""},
		{"more warm-up", 'b', func(docs []*Rank) {
			for _, d := range docs {
				d.Config.WarmupIterations = 9
			}
		}, Mismatch, "config.warmup_iterations: 0 against 9"},
		{"other prompts at one point", 'b', func(docs []*Rank) {
			prompts, err := RecordPrompts([][]uint32{{9}})
			if err != nil {
				t.Fatal(err)
			}
			everyRecord(docs, func(f *FPM) {
				if f.CounterID == 2 {
					f.Measurement.Prompts = prompts
				}
			})
		}, Mismatch, "inputs differ at 2 pairs"},
		{"another history", 'b', func(docs []*Rank) {
			for _, d := range docs {
				d.Ledger.Records[0].RequestedShape = ShapeRequest{[]int{128}}
			}
		}, Unestablished, "another history before the point at 6 pairs"},
		{"unobserved dispatch", 'b', func(docs []*Rank) {
			everyRecord(docs, func(f *FPM) { f.Measurement.Raw[0].Sample.Cudagraph = Cudagraph{Status: "unavailable"} })
		}, Unestablished, "dispatch not recorded at 6 pairs"},
	} {
		other := observedRun(t, c.other, c.change)
		for i := range other.Points { // a time is no reason
			other.Points[i].Group *= 3
		}
		q, err := Qualify([]*Observed{observedRun(t, 'a', nil), other}, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(q.Reasons, "\n"); q.Comparability != c.want || !strings.Contains(got, c.reason) || c.reason == "" && got != "" {
			t.Errorf("%s: %s because %q, want %s because %q", c.name, q.Comparability, got, c.want, c.reason)
		}
	}
}

// An outlier is named with what its launch's evidence says of it, or as unexplained; subsets are compared with the full grid.
func TestQualifyOutliersAndSubsets(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	launches := make([]*Observed, 4)
	for l := range launches {
		o := &Observed{Path: fmt.Sprint("run", l), RunID: fmt.Sprint(l), Status: "complete", Ranks: 1}
		for i := range 30 {
			if l == 3 && i >= 20 { // the subset
				break
			}
			wall := Float(1 + 0.01*random.NormFloat64())
			p := Point{PointType: Decode, BatchSize: i + 1, BenchmarkID: i + 1}
			one := Observation{Point: p, Key: fmt.Sprint("point", i), Group: wall, Wall: wall, Samples: []Float{wall}}
			switch {
			case l == 1 && i == 4:
				one.Group, one.Causes = 2, []string{"the Go collector ran 1 times"}
			case l == 2 && i == 7:
				one.Group = 3
			case l == 3:
				one.Group *= 1.25
			}
			o.Points = append(o.Points, one)
		}
		launches[l] = o
	}
	q, err := Qualify(launches[:3], 0.05)
	if err != nil {
		t.Fatal(err)
	}
	if q.Over != 2 || q.Of != 30 || len(q.Outliers) != 2 || q.Outliers[0].BenchmarkID != 5 || !q.Outliers[0].Explained || q.Outliers[1].BenchmarkID != 8 || q.Outliers[1].Explained {
		t.Errorf("%d of %d over, outliers %+v", q.Over, q.Of, q.Outliers)
	}
	if q.Points[0].BatchSize != 8 || q.Subset != nil {
		t.Errorf("the widest point is %v, subset %v", q.Points[0].String(), q.Subset)
	}
	var b strings.Builder
	if err := q.WriteText(&b, 1); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CV over 5 %: 2 of 30 points (6.7 %)", "outliers: 2, unexplained: 1", "rank 0: the Go collector ran 1 times", "and 29 points that vary less"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("want %q in\n%s", want, b.String())
		}
	}
	if q, err = Qualify(launches, 0.05); err != nil || q.Subset == nil || q.Subset.Low < 1.2 || q.Subset.High > 1.3 || q.Launches[3].Grid != "subset" {
		t.Errorf("%v: subset %+v, launches %+v", err, q.Subset, q.Launches)
	}
	// A launch that is slower as a whole is told as that, not as an outlier at each of its points.
	if level := q.Launches[3].Level; len(q.Outliers) != 2 || level < 1.2 || level > 1.3 {
		t.Errorf("level %v, outliers %+v", level, q.Outliers)
	}
	b.Reset()
	if err := q.WriteText(&b, 1); err != nil || strings.Count(b.String(), "as a whole: ") != 1 || !strings.Contains(b.String(), "run3 as a whole: 1.2") {
		t.Errorf("%v: want run3 as a whole in\n%s", err, b.String())
	}
	if _, err := Qualify(launches[:1], 0.05); err == nil {
		t.Error("one launch was judged")
	}
}
