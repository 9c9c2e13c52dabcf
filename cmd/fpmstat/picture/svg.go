package picture

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var (
	svgColor = regexp.MustCompile(`#[0-9A-F]{6}`)
	svgFont  = regexp.MustCompile(`font-family:[^;"]+`)
)

// fonts have the widths that the figures were laid out with, and are there on most machines.
const fonts = "font-family:Liberation Sans,Arimo,Arial,Helvetica,sans-serif"

// svg draws a figure as an <svg> element whose colours are variables; without the XML prologue.
func (f *Figure) svg() (string, error) {
	c := vgsvg.New(figureWidth, figureHeight)
	f.draw(draw.New(c))
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return "", err
	}
	text := out.String()
	begin := strings.Index(text, "<svg")
	if begin < 0 {
		return "", fmt.Errorf("picture: the SVG writer wrote no <svg> in %d bytes", len(text))
	}
	text = svgColor.ReplaceAllStringFunc(text[begin:], func(found string) string {
		for _, v := range f.variables {
			if isColor(found, v.light) {
				return "var(--" + v.name + ")"
			}
		}
		return found
	})
	return svgFont.ReplaceAllString(text, fonts), nil
}

// variables are those of all figures, each once.
func variables(figures []*Figure) []variable {
	var all []variable
	seen := map[string]bool{}
	for _, f := range figures {
		for _, v := range f.variables {
			if !seen[v.name] {
				seen[v.name] = true
				all = append(all, v)
			}
		}
	}
	return all
}

// isColor reports whether an SVG writer that rounds down may have written a colour so.
func isColor(text string, c color.RGBA) bool {
	n, err := strconv.ParseUint(text[1:], 16, 32)
	if err != nil {
		return false
	}
	near := func(got uint64, want uint8) bool { return got == uint64(want) || got+1 == uint64(want) }
	return near(n>>16, c.R) && near(n>>8&0xff, c.G) && near(n&0xff, c.B)
}

// styleSheet declares the variables: light, and dark for dark screens; print is always light. The selector is what they are set on.
func styleSheet(selector string, figures []*Figure) string {
	var light, dark strings.Builder
	light.WriteString("--paper:#FFFFFF")
	dark.WriteString("--paper:#16181B")
	for _, v := range variables(figures) {
		fmt.Fprintf(&light, ";--%s:%s", v.name, hex(v.light))
		fmt.Fprintf(&dark, ";--%s:%s", v.name, hex(v.dark))
	}
	return fmt.Sprintf("%s{%s}\n@media screen and (prefers-color-scheme:dark){%s{%s}}\n", selector, light.String(), selector, dark.String())
}

// WriteSVG writes the figures one below the other as one SVG file.
func (r *Report) WriteSVG(w io.Writer) error {
	width, height := figureWidth.Points(), figureHeight.Points()
	whole := height * float64(len(r.Figures))
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<svg width="%.6gpt" height="%.6gpt" viewBox="0 0 %.6g %.6g" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">
<style>
%s</style>
<rect width="100%%" height="100%%" style="fill:var(--paper)"/>
`, width, whole, width, whole, styleSheet("svg", r.Figures))
	for i, f := range r.Figures {
		element, err := f.svg()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, `<svg y="%.6g" width="%.6g" height="%.6g" viewBox="0 0 %.6g %.6g">`, float64(i)*height, width, height, width, height)
		b.WriteString(element[strings.Index(element, ">")+1:])
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
