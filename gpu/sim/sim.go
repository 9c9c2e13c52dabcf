// Package sim is an engine that computes nothing: a step takes as long as the roofline of a device says, and its
// sampled ids are a function of slot and position. It serves scale tests of everything around an engine; whatever it
// leaves behind names it.
package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// Name is what the engine is called wherever an engine is named.
const Name = "sim"

// depth is the number of steps that may be in flight.
const depth = 2

// valueBytes is the size of a weight and of a cache value: bfloat16.
const valueBytes = 2

// Engine is the simulated engine. See gpu.Engine.
type Engine struct {
	cfg      gpu.Config
	tp       int
	roofline *gpu.Roofline
	flight   []launched
	free     int64 // when the simulated device is idle again, on gpu.Monotonic's clock
	timer    *time.Timer
}

// launched is a step in flight.
type launched struct {
	step   *gpu.Step
	finish int64
}

// New makes an engine that takes as long as one H200 at its ceilings would.
func New(cfg gpu.Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	tp := 1
	if cfg.TP != nil {
		tp = cfg.TP.Size()
	}
	timer := time.NewTimer(0)
	<-timer.C
	return &Engine{cfg: cfg, tp: tp, roofline: gpu.NewRoofline(cfg.Geometry, gpu.H200, tp, valueBytes), flight: make([]launched, 0, depth), free: gpu.Monotonic(), timer: timer}, nil
}

// Blocks is the number of KV blocks that fit beside the weights into 90 % of the device's memory.
func Blocks(g *model.Geometry, blockSize, tp int) int {
	room := gpu.H200.Memory/10*9 - g.Parameters()*valueBytes/int64(tp)
	return int(max(0, room) / (g.KVBytesPerToken(valueBytes, tp) * int64(blockSize)))
}

// Info implements gpu.Engine.
func (e *Engine) Info() gpu.Info {
	backends := map[string]string{}
	for layer := range e.cfg.Geometry.Layers {
		backends[fmt.Sprintf("%sself_attn.attn", model.LayerPrefix(layer))] = Name
	}
	g, tp := e.cfg.Geometry, e.tp
	return gpu.Info{Engine: Name, DType: "bfloat16", KVDType: "bfloat16", AttentionBackend: Name, LayerBackends: backends,
		Async: true, Depth: depth, Host: map[string]string{"device": Name + ": roofline of an H200"},
		WeightBytes: g.Parameters() * valueBytes / int64(tp),
		CacheBytes:  g.KVBytesPerToken(valueBytes, tp) * int64(e.cfg.Blocks) * int64(e.cfg.BlockSize)}
}

// Prepare implements gpu.Engine: there is nothing to make.
func (e *Engine) Prepare(int, int, bool) error { return nil }

// Ceilings implements gpu.Gauge: they are what the engine computes its times from.
func (e *Engine) Ceilings(context.Context) (gpu.Device, error) { return gpu.H200, nil }

// Enqueue implements gpu.Engine.
func (e *Engine) Enqueue(step *gpu.Step) error {
	if len(e.flight) == depth {
		return fmt.Errorf("sim: %d steps are in flight already", depth)
	}
	if err := e.cfg.Check(step); err != nil {
		return err
	}
	e.free = max(e.free, gpu.Monotonic()) + int64(e.roofline.Floor(step))
	e.flight = append(e.flight, launched{step, e.free})
	return nil
}

// Await implements gpu.Engine.
func (e *Engine) Await(ctx context.Context, out *gpu.Output) error {
	if len(e.flight) == 0 {
		return errors.New("sim: no step is in flight")
	}
	l := e.flight[0]
	e.flight = e.flight[:copy(e.flight, e.flight[1:])]
	if rest := l.finish - gpu.Monotonic(); rest > 0 {
		e.timer.Reset(time.Duration(rest))
		select {
		case <-e.timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if out.Device = 0; e.cfg.Timing {
		out.Device = int64(e.roofline.Floor(l.step))
	}
	out.Arrival = l.finish // when the device would have been done, however late the timer was
	out.Sampled = out.Sampled[:0]
	for i := range l.step.Rows {
		row := &l.step.Rows[i]
		out.Sampled = append(out.Sampled, uint32((row.Slot*7919+row.Computed+row.New())%e.cfg.Geometry.Vocab))
	}
	out.Dispatch = e.cfg.Graph.Plan(l.step.Tokens(), l.step.Decode())
	return nil
}

// Finite implements gpu.Engine.
func (e *Engine) Finite() (bool, error) { return true, nil }

// Close implements gpu.Engine.
func (e *Engine) Close() error {
	e.timer.Stop()
	return nil
}
