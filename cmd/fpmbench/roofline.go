package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/rank/bench"
)

// gauge is how the ceilings of an engine's device are measured with --roofline; nil without.
func (pl *plan) gauge(engine gpu.Engine) (*bench.Roofline, error) {
	if !pl.ceilings {
		return nil, nil
	}
	g, ok := bare(engine).(gpu.Gauge)
	if !ok {
		return nil, fmt.Errorf("%w --roofline: engine %s cannot measure its ceilings", gpu.ErrConfig, pl.engine)
	}
	return &bench.Roofline{Gauge: g, Geometry: pl.geometry, TP: pl.topology.TP, ValueBytes: valueBytes[pl.engine]}, nil
}

// bare is the engine itself.
func bare(engine gpu.Engine) gpu.Engine {
	if s, ok := engine.(synchronous); ok {
		return s.Engine
	}
	return engine
}

// floors takes the floors of a run into its evidence.
func (o *own) floors(ctx context.Context, session *bench.Session, because string) (err error) {
	o.Roofline, err = session.Floors(ctx)
	if o.Roofline != nil {
		o.Roofline.Because = because
	}
	return err
}

// floors prints the table of a rank's floors: a line for each point, then what the ceilings were. Where these moved no ratio is shown.
func (p *program) floors(doc *artifact.Rank, r *artifact.Roofline) error {
	if r == nil {
		return nil
	}
	points := map[int]*artifact.Point{}
	for i := range doc.Results {
		points[doc.Results[i].Point.BenchmarkID] = &doc.Results[i].Point
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	library := slices.ContainsFunc(r.Points, func(f artifact.PointFloor) bool { return f.Library > 0 })
	head := "id\ttype\tbatch\tnew\tkv\tfloor ms\twall ms\tratio\t"
	if library {
		head += "library ms\tratio\t"
	}
	fmt.Fprintln(table, head)
	for _, f := range r.Points {
		point, ratio, beside := points[f.BenchmarkID], "void", ""
		fresh := point.TotalPrefillTokens
		if point.PointType == artifact.Decode {
			fresh = point.BatchSize
		}
		if !r.Void {
			ratio = fmt.Sprintf("%.3f", f.Ratio)
		}
		if f.Library > 0 {
			beside = fmt.Sprintf("%.3f\t%.3f\t", 1e3*f.Library, f.OverLibrary)
		} else if library {
			beside = "\t\t"
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\t%.3f\t%.3f\t%s\t%s\n", f.BenchmarkID, point.PointType, point.BatchSize, fresh, point.TotalKVReadTokens, 1e3*f.Floor, 1e3*f.Wall, ratio, beside)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "%sceilings of rank %d: %.1f GB/s read, %.3f TFLOP/s, the best of %d readings of %d to %d bursts; they moved by %.1f %%\n",
		text.String(), doc.DP.Rank, r.ReadRate/1e9, r.MathRate/1e12, len(r.Readings), gpu.Bursts, gpu.MostBursts, 100*r.Moved)
	return err
}
