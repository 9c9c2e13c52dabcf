package picture

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// mostCellTexts is how many places or lengths a heat map may have for each cell to say its time.
const mostCellTexts = 14

// heat is a heat map: places along the axis, KV lengths up, the colour the latency on a logarithmic scale.
func heat(p *panel) (*Figure, error) {
	f := newFigure(p.title+": heat map of latency", p.x, "KV tokens per request")
	f.Caption = "Latency of the slowest rank, colours on a logarithmic scale; empty cells were not measured."
	if p.about {
		f.Caption += " KV lengths are rounded to powers of two."
	}
	places, lengths := p.places(), p.lengths()
	m := &heatMap{low: math.Inf(1), high: math.Inf(-1), columns: len(places), rows: len(lengths)}
	for x, place := range places {
		for y, length := range lengths {
			if v, ok := p.cell(place, length, latency.value); ok {
				m.cells = append(m.cells, heatCell{x, y, v})
				m.low, m.high = min(m.low, v), max(m.high, v)
			}
		}
	}
	if len(m.cells) == 0 {
		return nil, errNothing
	}
	names := make([]string, len(lengths))
	for i, length := range lengths {
		names[i] = tokens(length, p.about)
	}
	f.plot.Add(m)
	f.plot.X.Min, f.plot.X.Max, f.plot.Y.Min, f.plot.Y.Max = -0.5, float64(len(places))-0.5, -0.5, float64(len(lengths))-0.5
	f.plot.X.Padding, f.plot.Y.Padding = 0, 0
	texts := make([]string, len(places))
	for i, place := range places {
		texts[i] = strconv.Itoa(place)
	}
	f.plot.X.Tick.Marker, f.plot.Y.Tick.Marker = cellTicks(texts, 18), cellTicks(names, 24)
	f.plot.X.Tick.Length, f.plot.Y.Tick.Length = 2, 2
	f.legend = m.legend
	return f, nil
}

// cellTicks puts names at the middle of cells, at most so many of them.
func cellTicks(names []string, most int) plot.ConstantTicks {
	ticks := make(plot.ConstantTicks, len(names))
	every := (len(names) + most - 1) / most
	for i, name := range names {
		ticks[i].Value = float64(i)
		if i%every == 0 {
			ticks[i].Label = name
		}
	}
	return ticks
}

// heatCell is a measured cell; v is in milliseconds.
type heatCell struct {
	x, y int
	v    float64
}

// heatMap draws cells.
type heatMap struct {
	cells         []heatCell
	low, high     float64
	columns, rows int
}

// color is that of a time, on a logarithmic scale.
func (m *heatMap) color(v float64) color.RGBA {
	if m.high == m.low {
		return viridis(0.5)
	}
	return viridis(math.Log(v/m.low) / math.Log(m.high/m.low))
}

// Plot implements plot.Plotter.
func (m *heatMap) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	label := style(textSize - 2)
	label.XAlign = draw.XCenter
	label.Font.Size = min(label.Font.Size, 0.34*(x(1)-x(0)), 0.7*(y(1)-y(0)))
	for _, cell := range m.cells {
		left, right, bottom, top := x(float64(cell.x)-0.5), x(float64(cell.x)+0.5), y(float64(cell.y)-0.5), y(float64(cell.y)+0.5)
		fill := m.color(cell.v)
		c.FillPolygon(fill, []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}})
		if max(m.columns, m.rows) > mostCellTexts {
			continue
		}
		if label.Color = color.White; luminance(fill) > 0.45 {
			label.Color = color.Black
		}
		c.FillText(label, vg.Point{X: (left + right) / 2, Y: (bottom + top) / 2}, number(cell.v))
	}
}

// legend is the scale of colours.
func (m *heatMap) legend(c draw.Canvas) {
	const steps, width = 64, vg.Length(14)
	bottom, top := c.Min.Y+50, c.Max.Y-52
	c.FillText(style(textSize), vg.Point{X: c.Min.X, Y: c.Max.Y - 34}, "latency (ms)")
	height := (top - bottom) / steps
	for i := range steps {
		low := bottom + vg.Length(i)*height
		high := min(low+height+0.3, top) // no seam
		c.FillPolygon(viridis((float64(i)+0.5)/steps), []vg.Point{{X: c.Min.X, Y: low}, {X: c.Min.X + width, Y: low}, {X: c.Min.X + width, Y: high}, {X: c.Min.X, Y: high}})
	}
	m.scale(c, style(textSize-1), c.Min.X+width, bottom, top)
}

// scale writes five times beside the colours, or the only one.
func (m *heatMap) scale(c draw.Canvas, label text.Style, x, bottom, top vg.Length) {
	if m.high == m.low {
		c.FillText(label, vg.Point{X: x + 6, Y: (bottom + top) / 2}, number(m.low))
		return
	}
	for i := range 5 {
		t := float64(i) / 4
		y := bottom + vg.Length(t)*(top-bottom)
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.5}, x, y, x+3, y)
		c.FillText(label, vg.Point{X: x + 6, Y: y}, number(m.low*math.Pow(m.high/m.low, t)))
	}
}
