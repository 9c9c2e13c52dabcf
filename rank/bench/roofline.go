package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// Roofline is what it takes to tell how far a run's points are from what the device can do at most.
type Roofline struct {
	Gauge      gpu.Gauge // the engine of this rank
	Geometry   *model.Geometry
	TP         int // tensor-parallel ranks
	ValueBytes int // size of a weight and of a cache value
}

// readings is how many times the ceilings are measured between the points, at most: beside once before the first and once after the last.
const readings = 16

// readCeilings measures the ceilings at the boundary before a point, by its place among count ones, where it is time; the ranks do so at the same time, since they
// take their steps at the same time. Place count is after the last one.
func (s *Session) readCeilings(ctx context.Context, place, count int) error {
	if s.cfg.Roofline == nil || place < count && place%((count+readings)/(readings+1)) != 0 {
		return nil
	}
	if err := s.leaders.Barrier(ctx); err != nil {
		return fmt.Errorf("bench: agree on measuring the ceilings: %w", err)
	}
	d, err := s.cfg.Roofline.Gauge.Ceilings(ctx)
	if err != nil {
		return fmt.Errorf("bench: measure the ceilings: %w", err)
	}
	s.ceilings = append(s.ceilings, artifact.Ceilings{Before: len(s.doc.Results), ReadRate: artifact.Float(d.ReadRate), MathRate: artifact.Float(d.MathRate)})
	return nil
}

// timedSteps is of how many different steps the library is timed, at most: those of a list of points, not of a whole grid.
const timedSteps = 64

// Floors are the floors of what this rank's document holds, after Run and before the engine is closed; nil when the ceilings were not measured. They are there beside
// the error of a library that could not be timed.
func (s *Session) Floors(ctx context.Context) (*artifact.Roofline, error) {
	if len(s.ceilings) == 0 {
		return nil, nil
	}
	r := artifact.NewRoofline(s.ceilings)
	c := s.cfg.Roofline
	roofline := gpu.NewRoofline(c.Geometry, gpu.Device{ReadRate: float64(r.ReadRate), MathRate: float64(r.MathRate)}, c.TP, c.ValueBytes)
	products := libraryProducts{took: map[[2]int]time.Duration{}}
	products.engine, _ = c.Gauge.(gpu.Library)
	var failed error
	for i := range s.doc.Results {
		result := &s.doc.Results[i]
		step, err := retainedStep(result, s.limits.BlockSize)
		if err != nil {
			return nil, fmt.Errorf("bench: floor of point %d: %w", result.Point.BenchmarkID, err)
		}
		library, err := products.bound(ctx, roofline, step)
		if err != nil {
			failed = fmt.Errorf("bench: time the library's products of point %d: %w", result.Point.BenchmarkID, err)
			products.engine = nil
		}
		r.Add(result.Point.BenchmarkID, artifact.Float(roofline.Floor(step).Seconds()), result.FPMs[0].WallTime, library)
	}
	return r, failed
}

// libraryProducts are the times of a library's products, by the tokens and rows of a step.
type libraryProducts struct {
	engine gpu.Library // nil: it cannot time one
	took   map[[2]int]time.Duration
}

// bound is the library's bound of a step in seconds, 0 where there is none.
func (p *libraryProducts) bound(ctx context.Context, r *gpu.Roofline, step *gpu.Step) (artifact.Float, error) {
	key := [2]int{step.Tokens(), len(step.Rows)}
	took, known := p.took[key]
	if !known {
		if p.engine == nil || len(p.took) == timedSteps {
			return 0, nil
		}
		var err error
		if took, err = p.engine.Products(ctx, key[0], key[1]); err != nil {
			return 0, err
		}
		p.took[key] = took
	}
	return artifact.Float(r.Library(step, took).Seconds()), nil
}

// retainedStep is the step whose time a result holds; of several steady ones that in the middle.
func retainedStep(result *artifact.Result, blockSize int) (*gpu.Step, error) {
	fresh, cached, err := result.Point.Lengths(blockSize)
	if err != nil {
		return nil, err
	}
	steady := 1
	if n := result.FPMs[0].MedianOf; n != nil {
		steady = *n
	}
	step := &gpu.Step{Rows: make([]gpu.Row, len(fresh))}
	for i := range step.Rows {
		row := gpu.Row{Slot: i, Computed: cached[i], Tokens: make([]uint32, fresh[i])}
		if result.Point.PointType == artifact.Decode { // the requests are injected with one token less, and the first step is not retained
			row = gpu.Row{Slot: i, Computed: max(1, cached[i]-1) + (steady+1)/2}
		}
		step.Rows[i] = row
	}
	return step, nil
}
