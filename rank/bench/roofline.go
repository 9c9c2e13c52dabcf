package bench

import (
	"context"
	"fmt"

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

// Floors are the floors of what this rank's document holds, after Run; nil when the ceilings were not measured.
func (s *Session) Floors() (*artifact.Roofline, error) {
	if len(s.ceilings) == 0 {
		return nil, nil
	}
	r := artifact.NewRoofline(s.ceilings)
	c := s.cfg.Roofline
	roofline := gpu.NewRoofline(c.Geometry, gpu.Device{ReadRate: float64(r.ReadRate), MathRate: float64(r.MathRate)}, c.TP, c.ValueBytes)
	for i := range s.doc.Results {
		result := &s.doc.Results[i]
		step, err := retainedStep(result, s.limits.BlockSize)
		if err != nil {
			return nil, fmt.Errorf("bench: floor of point %d: %w", result.Point.BenchmarkID, err)
		}
		r.Add(result.Point.BenchmarkID, artifact.Float(roofline.Floor(step).Seconds()), result.FPMs[0].WallTime)
	}
	return r, nil
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
