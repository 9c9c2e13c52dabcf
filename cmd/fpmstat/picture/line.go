package picture

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/fpmrun/fpmrun/artifact"
)

// markers tell neighbouring lines apart where colours do not.
var markers = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}}

// errNothing says that a figure would have nothing in it.
var errNothing = errors.New("picture: nothing to draw")

// quantity is what lines run over.
type quantity struct {
	title, axis string
	value       func(*Point) float64
	ranges      bool // fastest and slowest launch are shown
}

var (
	latency = quantity{"latency", "latency of the slowest rank (ms)", func(p *Point) float64 { return 1e3 * p.Wall }, true}
	factor  = quantity{"measured over floor", "measured time / floor", func(p *Point) float64 {
		if p.Floor == 0 {
			return 0
		}
		return p.Wall / p.Floor
	}, false}
)

// lines draws a quantity along the panel's axis, one line for each KV length.
func lines(p *panel, q quantity) (*Figure, error) {
	lengths := p.lengths()
	drawn := artifact.UniformLimit(lengths, mostLines)
	f := newFigure(fmt.Sprintf("%s: %s", p.title, q.title), p.x, q.axis)
	f.Caption = "One line for each KV length per request."
	if p.about {
		f.Caption = "One line for each KV length per request, rounded to powers of two."
	}
	if len(drawn) < len(lengths) {
		f.Caption += fmt.Sprintf(" %d of %d lengths are drawn.", len(drawn), len(lengths))
	}
	f.Caption += " " + p.left
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	grid.Vertical.Width, grid.Horizontal.Width = 0.5, 0.5
	f.plot.Add(grid)
	low, high := math.Inf(1), math.Inf(-1)
	var shown []entry
	for i, length := range drawn {
		var xys plotter.XYs
		var bars errorBars
		for _, place := range p.places() {
			v, ok := p.cell(place, length, q.value)
			if !ok {
				continue
			}
			low, high = min(low, v), max(high, v)
			xys = append(xys, plotter.XY{X: float64(place), Y: v})
			fastest, _ := p.cell(place, length, func(p *Point) float64 { return 1e3 * p.Fastest })
			slowest, _ := p.cell(place, length, func(p *Point) float64 { return 1e3 * p.Slowest })
			if q.ranges && slowest > fastest {
				bars.XYs = append(bars.XYs, plotter.XY{X: float64(place), Y: v})
				bars.YErrors = append(bars.YErrors, struct{ Low, High float64 }{v - fastest, slowest - v})
				low, high = min(low, fastest), max(high, slowest)
			}
		}
		if len(xys) == 0 {
			continue
		}
		light, dark := lineColor(i, len(drawn))
		f.variables = append(f.variables, variable{fmt.Sprintf("line-%d-%d", i+1, len(drawn)), light, dark})
		line, points, err := plotter.NewLinePoints(xys)
		if err != nil {
			return nil, fmt.Errorf("picture: %s: %w", f.Title, err)
		}
		line.LineStyle = draw.LineStyle{Color: light, Width: 1.6}
		points.GlyphStyle = draw.GlyphStyle{Color: light, Radius: 2.8, Shape: markers[i%len(markers)]}
		if len(bars.XYs) > 0 {
			whiskers, err := plotter.NewYErrorBars(bars)
			if err != nil {
				return nil, fmt.Errorf("picture: %s: %w", f.Title, err)
			}
			whiskers.LineStyle = draw.LineStyle{Color: light, Width: 0.8}
			f.plot.Add(whiskers)
		}
		f.plot.Add(line, points)
		shown = append(shown, entry{tokens(length, p.about), line.LineStyle, points.GlyphStyle})
	}
	if len(shown) == 0 {
		return nil, errNothing
	}
	f.Lines = len(shown)
	f.scaleY(low, high)
	f.scaleX(p.places())
	f.legend = func(c draw.Canvas) { drawLegend(c, []string{"KV tokens", "per request"}, shown) }
	return f, nil
}

// errorBars are ranges around points.
type errorBars struct {
	plotter.XYs
	plotter.YErrors
}

// entry is a line of a legend.
type entry struct {
	text  string
	line  draw.LineStyle
	glyph draw.GlyphStyle
}

// drawLegend draws a legend from the top of a canvas down, the last line first: the largest is drawn highest.
func drawLegend(c draw.Canvas, title []string, entries []entry) {
	const step, sample = vg.Length(15), vg.Length(24)
	y := c.Max.Y - 36
	for _, text := range title {
		c.FillText(style(textSize), vg.Point{X: c.Min.X, Y: y}, text)
		y -= step - 2
	}
	y -= 4
	for i := range entries {
		e := entries[len(entries)-1-i]
		c.StrokeLine2(e.line, c.Min.X, y, c.Min.X+sample, y)
		c.DrawGlyph(e.glyph, vg.Point{X: c.Min.X + sample/2, Y: y})
		c.FillText(style(textSize-1), vg.Point{X: c.Min.X + sample + 6, Y: y}, e.text)
		y -= step
	}
}
