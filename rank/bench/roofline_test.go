package bench

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// gauge is a device whose ceilings fall with each reading.
type gauge struct {
	fake  *fake
	t     *testing.T
	by    float64 // part of the first reading
	reads int
	err   error

	products int   // times that the library was timed
	broken   error // why it cannot be
}

func (g *gauge) Ceilings(context.Context) (gpu.Device, error) {
	if len(g.fake.flight) > 0 {
		g.t.Error("a step is in flight while the ceilings are measured")
	}
	lost := 1 - float64(g.reads)*g.by
	g.reads++
	return gpu.Device{ReadRate: 1e9 * lost, MathRate: 1e12}, g.err
}

// Products implements gpu.Library: they take as many microseconds as the step has tokens.
func (g *gauge) Products(_ context.Context, tokens, rows int) (time.Duration, error) {
	if len(g.fake.flight) > 0 {
		g.t.Error("a step is in flight while the library is timed")
	}
	g.products++
	return time.Duration(tokens) * time.Microsecond, g.broken
}

// gauged gives each rank a gauge.
func gauged(t *testing.T, by float64, err error, change func(c *Config)) (func(int, *Config, *fake), *[2]*gauge) {
	t.Helper()
	g, loaded := model.Load("tiny", nil)
	if loaded != nil {
		t.Fatal(loaded)
	}
	var gauges [2]*gauge
	return func(rank int, c *Config, f *fake) {
		gauges[rank] = &gauge{fake: f, t: t, by: by, err: err}
		c.Roofline = &Roofline{Gauge: gauges[rank], Geometry: g, TP: 1, ValueBytes: 4}
		if change != nil {
			change(c)
		}
	}, &gauges
}

// The floors are those of the steps that were retained, from the best reading of all; readings are before, between and after the points.
func TestFloorsOfARun(t *testing.T) {
	change, gauges := gauged(t, 0.001, nil, func(c *Config) { c.GiantKVThreshold = 64 })
	outcomes, fakes := runAll(t, 2, change)
	for rank, o := range outcomes {
		if o.err != nil {
			t.Fatal(o.err)
		}
		r, err := o.session.Floors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.Readings); n != gauges[rank].reads || n < 10 || n > readings+2 || r.Readings[0].Before != 0 || r.Readings[n-1].Before != len(o.doc.Results) || r.Void {
			t.Errorf("rank %d: %d readings, moved by %v: %+v", rank, n, r.Moved, r.Readings)
		}
		if r.ReadRate != 1e9 || len(r.Points) != len(o.doc.Results) {
			t.Fatalf("rank %d: %v bytes per second, %d points of %d", rank, r.ReadRate, len(r.Points), len(o.doc.Results))
		}
		floors := gpu.NewRoofline(o.session.cfg.Roofline.Geometry, gpu.Device{ReadRate: 1e9, MathRate: 1e12}, 1, 4)
		repeated, shapes := 0, map[[2]int]bool{}
		for i, p := range r.Points {
			f := &o.doc.Results[i].FPMs[0]
			raw := f.Measurement.Raw
			at := raw[len(raw)-1].Sample.ForwardIndex
			if f.MedianOf != nil { // of three steady steps the one in the middle
				at--
				repeated++
			}
			step := &fakes[rank].steps[at]
			shapes[[2]int{step.Tokens(), len(step.Rows)}] = true
			if want := floors.Library(step, time.Duration(step.Tokens())*time.Microsecond).Seconds(); math.Abs(float64(p.Library)/want-1) > 1e-6 || p.OverLibrary != p.Wall/p.Library {
				t.Errorf("rank %d: point %+v: %+v, want a library's bound of %v", rank, o.doc.Results[i].Point, p, want)
			}
			want := floors.Floor(step).Seconds()
			if math.Abs(float64(p.Floor)/want-1) > 1e-6 || p.Wall != f.WallTime || p.Ratio != p.Wall/p.Floor {
				t.Errorf("rank %d: point %+v: %+v, want a floor of %v", rank, o.doc.Results[i].Point, p, want)
			}
		}
		if n := gauges[rank].products; n != len(shapes) {
			t.Errorf("rank %d: the library was timed %d times for %d different steps", rank, n, len(shapes))
		}
		if repeated == 0 {
			t.Error("no decode point was repeated")
		}
	}
}

// A library that cannot be timed is an error, and the floors are there all the same.
func TestFloorsWithoutTheLibrary(t *testing.T) {
	change, gauges := gauged(t, 0, nil, nil)
	outcomes, _ := runAll(t, 1, change)
	broken := errors.New("no algorithm")
	gauges[0].broken = broken
	r, err := outcomes[0].session.Floors(t.Context())
	if !errors.Is(err, broken) || gauges[0].products != 1 {
		t.Errorf("got %v, timed %d times", err, gauges[0].products)
	}
	if r == nil || len(r.Points) != len(outcomes[0].doc.Results) || r.Points[0].Floor <= 0 || r.Points[0].Library != 0 {
		t.Errorf("the floors are not there: %+v", r)
	}
}

// Ceilings that cannot be measured end the run; without the wish nothing is measured.
func TestCeilingsFail(t *testing.T) {
	broken := errors.New("no memory for it")
	change, _ := gauged(t, 0, broken, nil)
	outcomes, _ := runAll(t, 1, change)
	if err := outcomes[0].err; !errors.Is(err, broken) || !strings.Contains(err.Error(), "ceilings") {
		t.Errorf("got %v", err)
	}
	outcomes, _ = runAll(t, 1, nil)
	if r, err := outcomes[0].session.Floors(t.Context()); r != nil || err != nil {
		t.Errorf("got %v, %v", r, err)
	}
}
