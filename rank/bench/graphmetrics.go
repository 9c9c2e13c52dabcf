package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

// GraphMetricsMethod is the RPC that switches a rank's graph metrics off again.
const GraphMetricsMethod = "fpm_disable_cudagraph_metrics"

// graphMetricsTimeout bounds the switching of all ranks together.
const graphMetricsTimeout = 10 * time.Second

// GraphMetrics is a rank's cudagraph-metrics option: whether records say what a step was dispatched as. A benchmark switches it on when
// it is off, and off again at its end, whatever that is; one that the user switched on stays on. Its methods may be called from any
// goroutine.
type GraphMetrics struct {
	on   atomic.Bool
	auto atomic.Bool // switched on by the benchmark
}

// NewGraphMetrics makes the option as the user set it.
func NewGraphMetrics(on bool) *GraphMetrics {
	g := &GraphMetrics{}
	g.on.Store(on)
	return g
}

// On reports whether records say what steps were dispatched as.
func (g *GraphMetrics) On() bool { return g.on.Load() }

// Enable switches the option on for the benchmark.
func (g *GraphMetrics) Enable() {
	if g.on.CompareAndSwap(false, true) {
		g.auto.Store(true)
	}
}

// Disable switches the option off on this rank if the benchmark switched it on.
func (g *GraphMetrics) Disable() {
	if g.auto.CompareAndSwap(true, false) {
		g.on.Store(false)
	}
}

// Handle answers GraphMetricsMethod.
func (g *GraphMetrics) Handle(context.Context, *collective.Request) (any, error) {
	g.Disable()
	return json.Marshal(map[string]bool{"cudagraph_metrics": g.on.Load()})
}

// Restore switches the option off on every rank of the world if the benchmark switched it on here. It has a time limit of its own, so that it also
// works for a run that failed. A rank that did not do it is in the error.
func (g *GraphMetrics) Restore(ctx context.Context, world *collective.Comm) error {
	if !g.auto.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), graphMetricsTimeout)
	defer cancel()
	var errs []error
	for _, r := range world.CallAll(ctx, GraphMetricsMethod, nil) {
		var text []byte
		switch err := r.Decode(&text); {
		case err != nil:
			errs = append(errs, fmt.Errorf("rank %d: %w", r.Rank, err))
		case string(text) != `{"cudagraph_metrics":false}`:
			errs = append(errs, fmt.Errorf(`rank %d answers %q: want {"cudagraph_metrics":false}`, r.Rank, text))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("bench: restore the cudagraph-metrics option: %w", err)
	}
	return nil
}
