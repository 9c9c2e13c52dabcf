package picture

import (
	"image"
	"image/color"
	"math"
	"testing"
)

// pixels counts the pixels of exactly one colour.
func pixels(i image.Image, c color.RGBA) int {
	n := 0
	for y := i.Bounds().Min.Y; y < i.Bounds().Max.Y; y++ {
		for x := i.Bounds().Min.X; x < i.Bounds().Max.X; x++ {
			if color.RGBAModel.Convert(i.At(x, y)) == c {
				n++
			}
		}
	}
	return n
}

// contrast is WCAG 2.1's contrast ratio.
func contrast(a, b color.RGBA) float64 {
	light := func(c color.RGBA) float64 {
		linear := func(v uint8) float64 {
			s := float64(v) / 255
			if s <= 0.04045 {
				return s / 12.92
			}
			return math.Pow((s+0.055)/1.055, 2.4)
		}
		return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
	}
	x, y := light(a)+0.05, light(b)+0.05
	return max(x, y) / min(x, y)
}

// Text and lines stand out on both papers, and lines get steadily brighter, so that grey and colour blindness keep their order.
func TestContrast(t *testing.T) {
	white, black := color.RGBA{0xff, 0xff, 0xff, 0xff}, color.RGBA{0x16, 0x18, 0x1b, 0xff}
	if a, b := contrast(ink, white), contrast(darkInk, black); a < 7 || b < 7 {
		t.Errorf("text has contrast %.1f and %.1f, want 7", a, b)
	}
	lastLight, lastDark := -1.0, -1.0
	for i := range mostLines {
		light, dark := lineColor(i, mostLines)
		if a, b := contrast(light, white), contrast(dark, black); a < 1.8 || b < 2.5 {
			t.Errorf("line %d has contrast %.1f and %.1f, want 1.8 and 2.5", i+1, a, b)
		}
		if a, b := luminance(light), luminance(dark); a <= lastLight || b <= lastDark {
			t.Errorf("line %d is no brighter than the one before", i+1)
		} else {
			lastLight, lastDark = a, b
		}
	}
	for i := range 101 {
		c := viridis(float64(i) / 100)
		text := color.RGBA{0xff, 0xff, 0xff, 0xff}
		if luminance(c) > 0.45 {
			text = color.RGBA{0, 0, 0, 0xff}
		}
		if got := contrast(text, c); got < 3.5 {
			t.Errorf("text on viridis(%.2f) has contrast %.1f, want 3.5", float64(i)/100, got)
		}
	}
}
