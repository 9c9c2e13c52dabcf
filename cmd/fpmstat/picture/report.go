package picture

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fpmrun/fpmrun/artifact"
)

// Report is the figures of some launches of one measurement, and the points behind them.
type Report struct {
	Title   string
	Figures []*Figure
	Left    []string // which figures are left out, and why
	Points  []Point
}

// New makes the figures of one launch or more. floor holds launches whose times stand for the least possible ones, such as those of the simulated engine; with none
// the floors count that the launches recorded, and without these the figures of measured time over the floor are left out. The error says so when there is no point to draw.
func New(launches, floor []*artifact.Observed) (*Report, error) {
	least := floors(floor)
	if len(floor) == 0 {
		least = recorded(launches)
	}
	r := &Report{Points: points(launches, least)}
	if len(r.Points) == 0 {
		return nil, fmt.Errorf("picture: %q has no measured point", launches[0].Path)
	}
	r.Title = launches[0].Title
	if n := len(launches); n > 1 {
		r.Title += fmt.Sprintf(" and %d more launches (medians; bars from the fastest to the slowest launch)", n-1)
	}
	known := false
	for i := range r.Points {
		known = known || r.Points[i].Floor > 0
	}
	for _, p := range panels(r.Points) {
		if err := r.add(lines(p, latency)); err != nil {
			return nil, err
		}
		if err := r.add(heat(p)); err != nil {
			return nil, err
		}
		if known {
			if err := r.add(lines(p, factor)); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case known:
	case len(floor) > 0:
		r.Left = append(r.Left, "measured over floor: the floor's run has none of these points")
	default:
		r.Left = append(r.Left, "measured over floor: the artifact holds no floor that counts (fpmbench --roofline), and no --floor RUN was given")
	}
	before := len(r.Figures)
	if err := r.add(ranks(r.Points)); err != nil {
		return nil, err
	}
	if len(r.Figures) == before {
		r.Left = append(r.Left, "spread of the ranks: there is one rank")
	}
	if len(r.Figures) == 0 {
		return nil, fmt.Errorf("picture: %q: none of its %d points has equal requests, and there is one rank", launches[0].Path, len(r.Points))
	}
	return r, nil
}

// add takes in a figure; one with nothing in it is left out.
func (r *Report) add(f *Figure, err error) error {
	if errors.Is(err, errNothing) {
		return nil
	}
	if err == nil {
		f.Caption = strings.TrimSpace(f.Caption)
		r.Figures = append(r.Figures, f)
	}
	return err
}
