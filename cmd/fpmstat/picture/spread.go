package picture

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ranks draws how much slower each rank was than the fastest one of the same point: a box from the lower to the upper quartile with the median, and a line
// from the 5th to the 95th percentile.
func ranks(all []Point) (*Figure, error) {
	slower := map[int][]float64{}
	for i := range all {
		own := all[i].Ranks
		fastest := slices.Min(slices.Collect(maps.Values(own)))
		for rank, wall := range own {
			slower[rank] = append(slower[rank], 100*(wall/fastest-1))
		}
	}
	if len(slower) < 2 {
		return nil, errNothing
	}
	f := newFigure("Spread of the ranks", "DP rank", "slower than the fastest rank (%)")
	f.Caption = "Over all points. Box: quartiles and median. Line: 5th to 95th percentile."
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Horizontal.Width, grid.Vertical.Width = faint, 0.5, 0
	grid.Vertical.Color = nil
	boxes := &rankBoxes{}
	high := 0.1
	for _, rank := range slices.Sorted(maps.Keys(slower)) {
		sorted := slices.Sorted(slices.Values(slower[rank]))
		b := rankBox{rank, [5]float64{}}
		for i, q := range []float64{0.05, 0.25, 0.5, 0.75, 0.95} {
			b.quantiles[i] = quantile(sorted, q)
		}
		high = max(high, b.quantiles[4])
		boxes.all = append(boxes.all, b)
	}
	f.plot.Add(grid, boxes)
	first, last := boxes.all[0].rank, boxes.all[len(boxes.all)-1].rank
	f.plot.X.Min, f.plot.X.Max = float64(first)-0.7, float64(last)+0.7
	f.plot.Y.Min, f.plot.Y.Max, f.plot.Y.Tick.Marker = 0, 1.08*high, evenTicks{}
	var ticks plot.ConstantTicks
	every := (len(boxes.all) + 15) / 16
	for i, b := range boxes.all {
		if i%every == 0 {
			ticks = append(ticks, plot.Tick{Value: float64(b.rank), Label: strconv.Itoa(b.rank)})
		}
	}
	f.plot.X.Tick.Marker = ticks
	return f, nil
}

// quantile of sorted values, straight between them.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(math.Floor(at))
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// rankBox is one rank's quantiles.
type rankBox struct {
	rank      int
	quantiles [5]float64
}

// rankBoxes draws the ranks.
type rankBoxes struct{ all []rankBox }

// Plot implements plot.Plotter.
func (r *rankBoxes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	half := min(18, 0.35*(x(1)-x(0)))
	thin, thick := draw.LineStyle{Color: accent, Width: 1}, draw.LineStyle{Color: ink, Width: 2}
	for _, b := range r.all {
		at := x(float64(b.rank))
		q := func(i int) vg.Length { return y(b.quantiles[i]) }
		c.StrokeLine2(thin, at, q(0), at, q(1))
		c.StrokeLine2(thin, at, q(3), at, q(4))
		c.FillPolygon(accent, []vg.Point{{X: at - half, Y: q(1)}, {X: at + half, Y: q(1)}, {X: at + half, Y: q(3)}, {X: at - half, Y: q(3)}})
		c.StrokeLine2(thick, at-half, q(2), at+half, q(2))
	}
}
