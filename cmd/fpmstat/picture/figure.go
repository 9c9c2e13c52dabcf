package picture

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Size of one figure, and of the part of it that the legend has for itself.
const (
	figureWidth  = 17 * vg.Centimeter
	figureHeight = 10 * vg.Centimeter
	legendWidth  = 3.4 * vg.Centimeter
	textSize     = vg.Length(10)
)

// sans is the font of all text.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

// Figure is one picture.
type Figure struct {
	Title   string
	Caption string
	Lines   int // how many lines it has, 0 for other kinds

	plot      *plot.Plot
	x, y      string     // what runs along the axes, with units
	variables []variable // colours that another paper changes
	legend    func(draw.Canvas)
}

// variable is a colour of a figure that is another one on dark paper.
type variable struct {
	name        string
	light, dark color.RGBA
}

// inks are in every figure.
var inks = []variable{{"ink", ink, darkInk}, {"faint", faint, darkFaint}, {"accent", accent, darkAccent}}

// newFigure prepares a figure with titles and axes.
func newFigure(title, x, y string) *Figure {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Label.Color, axis.Color, axis.Tick.Color = ink, ink, ink
		axis.Tick.Label.Font = font.From(sans, textSize-1)
		axis.Padding = 4
	}
	return &Figure{Title: title, plot: p, x: x, y: y, variables: inks}
}

// style is text of a size, aligned at its left and middle.
func style(size vg.Length) text.Style {
	return text.Style{Color: ink, Font: font.From(sans, size), XAlign: draw.XLeft, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
}

// scaleY makes the vertical axis logarithmic where values differ much, else linear from zero.
func (f *Figure) scaleY(low, high float64) {
	if high/low > 8 {
		f.plot.Y.Scale, f.plot.Y.Tick.Marker = plot.LogScale{}, decadeTicks{}
		f.plot.Y.Min, f.plot.Y.Max = low/1.15, high*1.15
		return
	}
	f.plot.Y.Min, f.plot.Y.Max, f.plot.Y.Tick.Marker = 0, high*1.08, evenTicks{}
}

// scaleX makes the horizontal axis logarithmic, with ticks at the measured places.
func (f *Figure) scaleX(places []int) {
	low, high := float64(places[0]), float64(places[len(places)-1])
	if low == high {
		low, high = low/2, high*2
	}
	margin := math.Pow(high/low, 0.03)
	f.plot.X.Scale, f.plot.X.Tick.Marker = plot.LogScale{}, placeTicks(places)
	f.plot.X.Min, f.plot.X.Max = low/margin, high*margin
}

// draw draws the figure into a canvas: its title above, the plot on the left, its legend on the right. Titles of axes are drawn here, since the plot would
// keep room for them in the middle of the values, which is not the middle of a logarithmic axis.
func (f *Figure) draw(c draw.Canvas) {
	const top, left, bottom, edge = 30, 20, 22, 8
	right := vg.Length(0)
	if f.legend != nil {
		right = legendWidth + edge
	}
	area := draw.Crop(c, left, -right-edge, bottom, -top)
	f.plot.Draw(area)
	title := style(textSize + 2)
	title.XAlign = draw.XCenter
	middle := vg.Point{X: (area.Min.X + area.Max.X) / 2, Y: (area.Min.Y + area.Max.Y) / 2}
	c.FillText(title, vg.Point{X: middle.X, Y: c.Max.Y - 14}, f.Title)
	label := style(textSize)
	label.XAlign = draw.XCenter
	c.FillText(label, vg.Point{X: middle.X, Y: c.Min.Y + 12}, f.x)
	label.Rotation = math.Pi / 2
	c.FillText(label, vg.Point{X: c.Min.X + 10, Y: middle.Y}, f.y)
	if f.legend != nil {
		f.legend(draw.Crop(c, c.Max.X-c.Min.X-legendWidth, 0, 0, 0))
	}
}

// milliseconds prints a time in seconds.
func milliseconds(seconds float64) string { return number(1e3 * seconds) }

// tokens prints a KV length.
func tokens(n int, about bool) string {
	if about && n > 0 {
		return fmt.Sprintf("≈ %d", n)
	}
	return fmt.Sprint(n)
}
