package picture

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/fpmrun/fpmrun/artifact"
)

const (
	mostLines   = 10 // that can be told apart in one figure
	mostBatches = 3  // of prefill that get figures of their own
)

// panel is the points of one family of figures: all of decode, or prefill of one batch size.
type panel struct {
	title  string // such as "Decode"
	x      string // what runs along the axis
	points []Point
	at     func(*Point) int // a point's place on the axis
	about  bool             // KV lengths are rounded
	left   string           // what is not drawn, or ""
}

// group is the KV length whose line a point is on.
func (p *panel) group(point *Point) int {
	kv := point.kvLength()
	if !p.about || kv == 0 {
		return kv
	}
	low := 1 << (bits.Len(uint(kv)) - 1)
	if 2*low-kv < kv-low {
		return 2 * low
	}
	return low
}

// lengths are the KV lengths of the panel's lines, rising.
func (p *panel) lengths() []int {
	found := map[int]bool{}
	for i := range p.points {
		found[p.group(&p.points[i])] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// places are the points' places on the axis, rising.
func (p *panel) places() []int {
	found := map[int]bool{}
	for i := range p.points {
		found[p.at(&p.points[i])] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// cell is the median of value over the points of a place and a KV length; false without one.
func (p *panel) cell(place, length int, value func(*Point) float64) (float64, bool) {
	var values []float64
	for i := range p.points {
		if q := &p.points[i]; p.at(q) == place && p.group(q) == length && value(q) > 0 {
			values = append(values, value(q))
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	return median(values), true
}

// panels sorts points into families of figures.
func panels(all []Point) []*panel {
	var decode []Point
	prefill := map[int][]Point{}
	for _, p := range all {
		switch {
		case p.Unequal:
		case p.Type == artifact.Decode:
			decode = append(decode, p)
		default:
			prefill[p.Batch] = append(prefill[p.Batch], p)
		}
	}
	var found []*panel
	if len(decode) > 0 {
		found = append(found, newPanel(&panel{title: "Decode", x: "batch size (requests)", points: decode, at: func(p *Point) int { return p.Batch }}))
	}
	batches := slices.Sorted(maps.Keys(prefill))
	slices.SortStableFunc(batches, func(a, b int) int { return len(prefill[b]) - len(prefill[a]) })
	drawn := slices.Sorted(slices.Values(batches[:min(mostBatches, len(batches))]))
	for i, batch := range drawn {
		p := newPanel(&panel{title: fmt.Sprintf("Prefill, batch %d", batch), x: "new tokens (sum over the batch)", points: prefill[batch], at: func(p *Point) int { return p.NewTokens }})
		if i == 0 && len(batches) > len(drawn) {
			p.left = fmt.Sprintf("Prefill of %d more batch sizes is in the table only.", len(batches)-len(drawn))
		}
		found = append(found, p)
	}
	return found
}

// newPanel rounds the KV lengths where they are too many, or where a quarter of them would be lines of one point, and rounding joins some.
func newPanel(p *panel) *panel {
	lengths := p.lengths()
	single := 0
	for _, length := range lengths {
		n := 0
		for _, place := range p.places() {
			if _, ok := p.cell(place, length, latency.value); ok {
				n++
			}
		}
		if n == 1 {
			single++
		}
	}
	p.about = true
	p.about = (len(lengths) > mostLines || 4*single >= len(lengths)) && len(p.lengths()) < len(lengths)
	return p
}
