package bench

import (
	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// keepTiming keeps the device's own times of a point that was just measured, in a diagnostic run.
func (s *Session) keepTiming(point *artifact.Point, outs []gpu.Output) {
	if !s.cfg.Timing || point.Replica() {
		return
	}
	t := artifact.PointTiming{BenchmarkID: point.BenchmarkID}
	for i := range outs {
		t.Seconds = append(t.Seconds, artifact.Float(gpu.Seconds(outs[i].Device)))
	}
	s.timing.GPUTiming = append(s.timing.GPUTiming, t)
}

// Diagnostic is what marks this run's document as one of a diagnostic run; nil when it is none.
func (s *Session) Diagnostic() *artifact.Diagnostic {
	if !s.cfg.Timing {
		return nil
	}
	return &s.timing
}
