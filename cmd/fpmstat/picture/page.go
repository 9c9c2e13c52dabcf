package picture

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes one page with every figure and a table of the points. It needs no other file and no network.
func (r *Report) WriteHTML(w io.Writer) error {
	type figure struct {
		Title, Caption string
		SVG            template.HTML
	}
	type row struct {
		ID, Batch, New, KV                              int
		Type, Wall, PerSecond, Spread, Launches, Factor string
	}
	data := struct {
		Title   string
		Style   template.CSS
		Figures []figure
		Left    []string
		Rows    []row
		Floor   bool
	}{Title: r.Title, Style: template.CSS(styleSheet(":root", r.Figures)), Left: r.Left} // #nosec G203: made of constants and numbers
	for _, f := range r.Figures {
		element, err := f.svg()
		if err != nil {
			return err
		}
		data.Figures = append(data.Figures, figure{f.Title, f.Caption, template.HTML(element)}) // #nosec G203: the SVG writer escapes text
	}
	for i := range r.Points {
		p := &r.Points[i]
		fastest := slices.Min(slices.Collect(maps.Values(p.Ranks)))
		t := row{ID: p.ID, Type: p.Type, Batch: p.Batch, New: p.NewTokens, KV: p.KVTokens, Wall: milliseconds(p.Wall), PerSecond: fmt.Sprintf("%.0f", p.PerSecond()),
			Spread: fmt.Sprintf("%.1f", 100*(p.Wall-fastest)/p.Wall), Launches: milliseconds(p.Fastest) + " to " + milliseconds(p.Slowest)}
		if p.Floor > 0 {
			data.Floor = true
			t.Factor = fmt.Sprintf("%.2f", p.Wall/p.Floor)
		}
		data.Rows = append(data.Rows, t)
	}
	return page.Execute(w, data)
}
