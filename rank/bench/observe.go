package bench

import (
	"context"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/rank/evidence"
)

// observer takes the evidence of host and process that goes with each measured point. The zero observer takes none.
type observer struct {
	on    bool
	usage *evidence.Usage
	host  *evidence.Host
	point *artifact.PointEvidence // under way
}

func newObserver(on bool) observer {
	if !on {
		return observer{}
	}
	return observer{on: true, usage: evidence.NewUsage(), host: evidence.NewHost()}
}

// forget drops what was begun for a point that was then skipped.
func (o *observer) forget() { o.point = nil }

// before reads the host when a point is prepared. Every rank does so before it says that it is ready, so nobody measures meanwhile.
func (o *observer) before(_ context.Context, id, steps int) {
	if !o.on {
		return
	}
	o.usage.Reset(steps)
	o.point = &artifact.PointEvidence{BenchmarkID: id, Before: o.host.Read()}
}

// after reads the host again when all ranks have exchanged their results, and returns the point's evidence; nil without any.
func (o *observer) after(_ context.Context, firstForward int) *artifact.PointEvidence {
	p := o.point
	if p == nil {
		return nil
	}
	o.point = nil
	p.After = o.host.Read()
	p.Steps = o.usage.Steps()
	if p.Steps == nil {
		p.Steps = []artifact.StepEvidence{}
	}
	for k := range p.Steps {
		p.Steps[k].ForwardIndex = firstForward + k
	}
	return p
}

// mark takes the counters between two steps of a measured point. It allocates nothing.
func (o *observer) mark() {
	if o.point != nil {
		o.usage.Mark()
	}
}

// startSignal waits for the start signal of the group and takes the start stamp.
func (s *Session) startSignal(ctx context.Context) (int64, error) {
	err := s.leaders.Barrier(ctx)
	s.observer.mark()
	return gpu.Monotonic(), err
}
