package picture

import (
	"fmt"
	"io"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// pngDPI is the resolution of a PNG file in dots per inch.
const pngDPI = 150

// WritePNG writes the figures one below the other as one PNG file, on white.
func (r *Report) WritePNG(w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(figureWidth, vg.Length(len(r.Figures))*figureHeight), vgimg.UseDPI(pngDPI))
	page := draw.New(c)
	for i, f := range r.Figures {
		top := page.Max.Y - vg.Length(i)*figureHeight
		f.draw(draw.Canvas{Canvas: page.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: page.Min.X, Y: top - figureHeight}, Max: vg.Point{X: page.Max.X, Y: top}}})
	}
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(w); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return nil
}
