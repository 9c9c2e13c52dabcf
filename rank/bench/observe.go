package bench

import (
	"context"
	"log/slog"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/rank/evidence"
)

// observer takes the evidence of host and process that goes with each measured point. The zero observer takes none.
type observer struct {
	on    bool
	turns bool // see Config.EvidenceInTurn
	usage *evidence.Usage
	host  *evidence.Host
	gpus  func(ctx context.Context) ([]artifact.GPUReading, error)
	log   *slog.Logger
	told  bool                    // that the GPUs cannot be read
	point *artifact.PointEvidence // under way
}

func newObserver(c *Config) observer {
	if !c.HostEvidence {
		return observer{}
	}
	return observer{on: true, turns: c.EvidenceInTurn, usage: evidence.NewUsage(), host: evidence.NewHost(), gpus: c.GPUs, log: c.Logger}
}

// gpuDeadline is how long a reading of GPUs may take; without one in time the point is measured all the same.
const gpuDeadline = 50 * time.Millisecond

// read is the host and its GPUs now.
func (o *observer) read(ctx context.Context) artifact.HostReading {
	r := o.host.Read()
	if o.gpus == nil {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, gpuDeadline)
	defer cancel()
	var err error
	if r.GPUs, err = o.gpus(ctx); err != nil {
		r.GPUError = err.Error()
		if !o.told {
			o.log.Warn("no reading of the GPUs around this point", "error", err)
		}
		o.told = true
	}
	return r
}

// forget drops what was begun for a point that was then skipped.
func (o *observer) forget() { o.point = nil }

// before reads the host when a point is prepared. Every rank does so before it says that it is ready, so nobody measures meanwhile.
func (o *observer) before(ctx context.Context, id, steps int) {
	if !o.on || o.turns && (id-1)%4%3 != 0 {
		return
	}
	o.usage.Reset(steps)
	o.point = &artifact.PointEvidence{BenchmarkID: id, Before: o.read(ctx)}
}

// after reads the host again when all ranks have exchanged their results, and returns the point's evidence; nil without any.
func (o *observer) after(ctx context.Context, firstForward int) *artifact.PointEvidence {
	p := o.point
	if p == nil {
		return nil
	}
	o.point = nil
	p.After = o.read(ctx)
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
