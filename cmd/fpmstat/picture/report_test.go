package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

// launch is a made-up launch: a decode grid of ten batch sizes and ten KV lengths, a prefill grid of five by four in one batch size, on some ranks.
func launch(ranks int, slower float64) *artifact.Observed {
	o := &artifact.Observed{Path: "made-up.json", Title: "made up", Ranks: ranks}
	add := func(p artifact.Point) {
		p.BenchmarkID = len(o.Points)/ranks + 1
		wall := slower * (1e-3 + 1e-5*float64(p.BatchSize) + 2e-8*float64(p.TotalKVReadTokens) + 2e-6*float64(p.TotalPrefillTokens))
		for rank := range ranks {
			own := wall * (1 - 0.01*float64(ranks-1-rank))
			o.Points = append(o.Points, artifact.Observation{Point: p, Key: fmt.Sprint(p.PointType, p.BatchSize, p.TotalPrefillTokens, p.TotalKVReadTokens), Rank: rank,
				Wall: artifact.Float(own), Group: artifact.Float(wall)})
		}
	}
	for _, batch := range []int{1, 2, 4, 8, 12, 16, 24, 32, 48, 64} {
		for kv := 16; kv <= 8192; kv *= 2 {
			add(artifact.Point{PointType: artifact.Decode, BatchSize: batch, TotalKVReadTokens: batch * kv})
		}
	}
	for _, fresh := range []int{16, 64, 256, 1024, 4096} {
		for _, kv := range []int{0, 256, 1024, 4096} {
			add(artifact.Point{PointType: artifact.Prefill, BatchSize: 2, TotalPrefillTokens: fresh, TotalKVReadTokens: 2 * kv})
		}
	}
	return o
}

// floored is a launch that recorded floors: of rank 0 a half of the slowest rank's time, of the others less.
func floored(o *artifact.Observed) *artifact.Observed {
	for i := range o.Points {
		p := &o.Points[i]
		p.Floor = p.Group / artifact.Float(2+p.Rank)
	}
	return o
}

// Measured over floor is the slowest rank's time over the highest floor of the ranks.
func TestRecordedFloors(t *testing.T) {
	slow, fast := floored(launch(2, 2)), floored(launch(2, 1))
	for _, p := range newReport(t, []*artifact.Observed{slow, fast}, nil).Points {
		if ratio := p.Wall / p.Floor; ratio < 2.99 || ratio > 3.01 {
			t.Errorf("%s: %v over %v", p.Name(), p.Wall, p.Floor)
		}
	}
}

func newReport(t *testing.T, launches, floor []*artifact.Observed) *Report {
	t.Helper()
	r, err := New(launches, floor)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFigures(t *testing.T) {
	one := []*artifact.Observed{launch(2, 1)}
	for _, c := range []struct {
		name            string
		launches, floor []*artifact.Observed
		figures         string // the number of lines of each
		left            string
	}{
		{"no floor", one, nil, "Decode: latency 10, Decode: heat map of latency 0, Prefill, batch 2: latency 4, Prefill, batch 2: heat map of latency 0, Spread of the ranks 0", "the artifact holds no floor"},
		{"a floor", one, one, "Decode: latency 10, Decode: heat map of latency 0, Decode: measured over floor 10, Prefill, batch 2: latency 4, Prefill, batch 2: heat map of latency 0, " +
			"Prefill, batch 2: measured over floor 4, Spread of the ranks 0", ""},
		{"floors of its own", []*artifact.Observed{floored(launch(2, 1))}, nil, "Decode: latency 10, Decode: heat map of latency 0, Decode: measured over floor 10, Prefill, batch 2: latency 4, " +
			"Prefill, batch 2: heat map of latency 0, Prefill, batch 2: measured over floor 4, Spread of the ranks 0", ""},
		{"one rank", []*artifact.Observed{launch(1, 1)}, one, "Decode: latency 10, Decode: heat map of latency 0, Decode: measured over floor 10, Prefill, batch 2: latency 4, " +
			"Prefill, batch 2: heat map of latency 0, Prefill, batch 2: measured over floor 4", "there is one rank"},
		{"a floor of other points", one, []*artifact.Observed{{}}, "Decode: latency 10, Decode: heat map of latency 0, Prefill, batch 2: latency 4, Prefill, batch 2: heat map of latency 0, Spread of the ranks 0",
			"the floor's run has none of these points"},
	} {
		r := newReport(t, c.launches, c.floor)
		var got []string
		for _, f := range r.Figures {
			got = append(got, fmt.Sprint(f.Title, " ", f.Lines))
		}
		if text := strings.Join(got, ", "); text != c.figures {
			t.Errorf("%s: figures\n%s, want\n%s", c.name, text, c.figures)
		}
		if text := strings.Join(r.Left, "; "); !strings.Contains(text, c.left) || (c.left == "") != (text == "") {
			t.Errorf("%s: left out %q, want %q", c.name, text, c.left)
		}
	}
	if _, err := New([]*artifact.Observed{{Path: "empty.json"}}, nil); err == nil || !strings.Contains(err.Error(), `"empty.json" has no measured point`) {
		t.Errorf("no point: %v", err)
	}
}

// Several launches are one point each: the median, with the range of the launches.
func TestSeveralLaunches(t *testing.T) {
	r := newReport(t, []*artifact.Observed{launch(2, 1), launch(2, 3), launch(2, 2)}, nil)
	one := newReport(t, []*artifact.Observed{launch(2, 1)}, nil)
	if len(r.Points) != 120 || len(one.Points) != 120 {
		t.Fatalf("%d and %d points, want 120", len(r.Points), len(one.Points))
	}
	for i := range r.Points {
		p, base := &r.Points[i], one.Points[i].Wall
		if p.Wall != 2*base || p.Fastest != base || p.Slowest != 3*base || p.Ranks[1] != 2*base {
			t.Fatalf("%s: median %v of %v to %v, rank 1 %v, want %v of %v to %v", p.Name(), p.Wall, p.Fastest, p.Slowest, p.Ranks[1], 2*base, base, 3*base)
		}
	}
	if !strings.Contains(r.Title, "2 more launches") {
		t.Errorf("title %q", r.Title)
	}
}

// SVG is well-formed, says what runs along its axes, and has each of a figure's lines as a variable that the dark screen changes too.
func TestSVG(t *testing.T) {
	r := newReport(t, []*artifact.Observed{launch(2, 1)}, nil)
	var b bytes.Buffer
	if err := r.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	in := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	var texts []string
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok {
			texts = append(texts, string(data))
		}
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{"batch size (requests)", "latency of the slowest rank (ms)", "new tokens (sum over the batch)", "KV tokens per request", "slower than the fastest rank (%)", "8192"} {
		if !strings.Contains(all, want) {
			t.Errorf("no text %q", want)
		}
	}
	svg := b.String()
	for i := range 10 {
		name := fmt.Sprintf("--line-%d-10", i+1)
		if n := strings.Count(svg, name+":"); n != 2 {
			t.Errorf("%s is declared %d times, want for light and dark", name, n)
		}
		if !regexp.MustCompile(`stroke:var\(` + name + `\)`).MatchString(svg) {
			t.Errorf("no line has %s", name)
		}
	}
	// Cells of a heat map are what their scale says, whatever colours lines have.
	heat, err := r.Figures[1].svg()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(heat, "var(--line") || !strings.Contains(heat, "var(--ink)") {
		t.Error("the heat map has a line's colour or no ink")
	}
}

// The page loads nothing and runs nothing.
func TestHTMLIsSelfContained(t *testing.T) {
	o := launch(2, 1)
	o.Title = `tiny <script>alert(1)</script> & "more"`
	r := newReport(t, []*artifact.Observed{o}, []*artifact.Observed{o})
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(`xmlns="http://www.w3.org/2000/svg"`, "", `xmlns:xlink="http://www.w3.org/1999/xlink"`, "").Replace(b.String())
	if found := regexp.MustCompile(`(?i)https?:|<script|<link|<img|@import|url\(|src=`).FindString(text); found != "" {
		t.Errorf("the page holds %q", found)
	}
	if n := strings.Count(text, "<tr>"); n != 121 {
		t.Errorf("%d rows, want a head and 120 points", n)
	}
	if n := strings.Count(text, "<figure>"); n != len(r.Figures) {
		t.Errorf("%d figures, want %d", n, len(r.Figures))
	}
	if !strings.Contains(text, "<td>1.00</td>") || !strings.Contains(text, "tiny &lt;script&gt;") {
		t.Error("no factor of 1, or a title that is not escaped")
	}
}

func TestPNG(t *testing.T) {
	r := newReport(t, []*artifact.Observed{launch(2, 1)}, nil)
	var b bytes.Buffer
	if err := r.WritePNG(&b); err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if size := image.Bounds().Size(); size.X != 1004 || size.Y < 2900 || size.Y > 3000 {
		t.Errorf("%v pixels", size)
	}
	for i := range 10 {
		light, _ := lineColor(i, 10)
		if n := pixels(image, light); n < 20 {
			t.Errorf("line %d of 10 has %d pixels", i+1, n)
		}
	}
}
