package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
)

// forward executes steps on the engine and counts them.
type forward struct {
	engine gpu.Engine
	depth  int           // steps that may be in flight
	count  int           // non-empty outputs so far: the next forward_index
	limit  time.Duration // of the wait for one output; 0 = none
	watch  watch
	mark   func() // after each output; it allocates nothing. nil: nobody watches
}

// run executes the steps and fills outs, one per step. start is called with no step in flight right before the first is
// enqueued, and its result is the start stamp. Nothing is allocated, but for what the engine does itself.
func (f *forward) run(ctx context.Context, steps []gpu.Step, outs []gpu.Output, start func() (int64, error)) (int64, error) {
	stamp, err := start()
	if err != nil {
		return 0, err
	}
	next := 0
	for k := range steps {
		for ; next < len(steps) && next < k+f.depth; next++ {
			if err := f.engine.Enqueue(&steps[next]); err != nil {
				return 0, fmt.Errorf("bench: forward %d: %w", f.count+next-k, err)
			}
		}
		if err := f.watch.await(ctx, f.engine, &outs[k], f.limit); err != nil {
			return 0, fmt.Errorf("bench: forward %d: %w", f.count, err)
		}
		if f.mark != nil {
			f.mark()
		}
		if len(steps[k].Rows) > 0 {
			f.count++
		}
	}
	return stamp, nil
}

// prepare runs steps outside any measurement.
func (f *forward) prepare(ctx context.Context, steps []gpu.Step) error {
	outs := outputs(steps)
	_, err := f.run(ctx, steps, outs, unstamped)
	return err
}

// unstamped starts steps whose time nobody asks for.
func unstamped() (int64, error) { return 0, nil }

// outputs allocates room for the outputs of steps.
func outputs(steps []gpu.Step) []gpu.Output {
	outs := make([]gpu.Output, len(steps))
	for i := range outs {
		outs[i].Sampled = make([]uint32, 0, len(steps[i].Rows))
	}
	return outs
}

// records makes the raw records of a point's steps. The first step is timed from the start stamp, the others from the
// output before.
func records(point *artifact.Point, id identity, firstForward int, b *batch, outs []gpu.Output, start int64) []artifact.FPM {
	raw := make([]artifact.FPM, len(outs))
	for k := range outs {
		from, basis := start, artifact.ScheduleToOutput
		if k > 0 {
			from, basis = outs[k-1].Arrival, artifact.InterOutput
		}
		begin, end := artifact.Float(gpu.Seconds(from)), artifact.Float(gpu.Seconds(outs[k].Arrival))
		raw[k] = artifact.FPM{
			Version: 1, WorkerID: id.worker, DPRank: id.dpRank, CounterID: point.BenchmarkID, WallTime: end - begin,
			Scheduled: scheduled(&b.steps[k], b.decode),
			Sample: &artifact.Sample{
				SampleIndex: k, ForwardIndex: firstForward + k,
				Timing:    artifact.Timing{Basis: basis, Start: &begin, End: end},
				Cudagraph: observedGraph(outs[k].Dispatch, id.graphMetrics),
			},
		}
	}
	return raw
}

// observedGraph is what a record says of a step's dispatch: nothing while the metrics are off and when the engine does not tell all of it.
func observedGraph(d gpu.Dispatch, metrics *GraphMetrics) artifact.Cudagraph {
	if !metrics.On() || d.Mode == "" || d.Padded < d.Unpadded {
		return artifact.Cudagraph{Status: "unavailable"}
	}
	return artifact.ObservedGraph(string(d.Mode), d.Unpadded, d.Padded)
}

// identity is what a rank's records say about who made them.
type identity struct {
	worker       string
	dpRank       int
	graphMetrics *GraphMetrics
}
