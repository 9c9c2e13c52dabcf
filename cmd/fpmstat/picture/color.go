package picture

import (
	"fmt"
	"image/color"
)

// Ink of a figure as it is drawn. In SVG these very colours are replaced by variables, so nothing else may have them.
var (
	ink    = color.RGBA{0x1c, 0x1c, 0x1d, 0xff}
	faint  = color.RGBA{0xde, 0xde, 0xdf, 0xff}
	accent = color.RGBA{0x00, 0x72, 0xb2, 0xff} // blue of the palette of Masataka Okabe and Kei Ito, 2002
)

// The same on dark paper.
var (
	darkInk    = color.RGBA{0xe6, 0xe6, 0xe7, 0xff}
	darkFaint  = color.RGBA{0x3b, 0x3d, 0x40, 0xff}
	darkAccent = color.RGBA{0x56, 0xb4, 0xe9, 0xff} // the palette's sky blue
)

// Ends of the map that lines take: yellow is lost on white paper, violet on black.
const (
	lightLow, lightHigh = 0.0, 0.80
	darkLow, darkHigh   = 0.34, 1.0
)

// viridisAnchors are the map's colours at equal steps from 0 to 1.
var viridisAnchors = [...][3]float64{
	{0x44, 0x01, 0x54}, {0x48, 0x28, 0x78}, {0x3e, 0x49, 0x89}, {0x31, 0x68, 0x8e}, {0x26, 0x82, 0x8e},
	{0x1f, 0x9e, 0x89}, {0x35, 0xb7, 0x79}, {0x6e, 0xce, 0x58}, {0xb5, 0xde, 0x2b}, {0xfd, 0xe7, 0x25},
}

// viridis is the map's colour at t in [0, 1], straight between the anchors.
func viridis(t float64) color.RGBA {
	last := len(viridisAnchors) - 1
	at := min(max(t, 0), 1) * float64(last)
	i := min(int(at), last-1)
	mix := func(c int) uint8 {
		a, b := viridisAnchors[i][c], viridisAnchors[i+1][c]
		return uint8(a + (b-a)*(at-float64(i)) + 0.5)
	}
	return color.RGBA{mix(0), mix(1), mix(2), 0xff}
}

// lineColor is the colour of line i of n, on light and on dark paper.
func lineColor(i, n int) (light, dark color.RGBA) {
	t := 0.0
	if n > 1 {
		t = float64(i) / float64(n-1)
	}
	return viridis(lightLow + t*(lightHigh-lightLow)), viridis(darkLow + t*(darkHigh-darkLow))
}

// luminance is how bright a colour is, from 0 to 1 (weights of Rec. 709 on the encoded values; enough to choose between black and white text).
func luminance(c color.RGBA) float64 {
	return (0.2126*float64(c.R) + 0.7152*float64(c.G) + 0.0722*float64(c.B)) / 255
}

// hex is the colour as CSS and the SVG writer write it.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }
