package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// The option is on during the benchmark only when the user had it off, and off again on every rank after it; what the user switched on stays on.
func TestGraphMetricsAreRestored(t *testing.T) {
	for _, user := range []bool{false, true} {
		comms := world(t, 3)
		options := make([]*GraphMetrics, len(comms))
		for rank, comm := range comms {
			options[rank] = NewGraphMetrics(user)
			options[rank].Enable()
			if err := comm.Handle(GraphMetricsMethod, options[rank].Handle); err != nil {
				t.Fatal(err)
			}
			comm.Ready()
			if !options[rank].On() {
				t.Errorf("user %v: rank %d: off during the benchmark", user, rank)
			}
		}
		if err := options[0].Restore(t.Context(), comms[0]); err != nil {
			t.Error(err)
		}
		for rank, o := range options {
			o.Disable() // as a run does that failed
			if o.On() != user {
				t.Errorf("user %v: rank %d: on is %v after the benchmark", user, rank, o.On())
			}
		}
	}
}

// Ranks that do not switch the option off are named, within the bound of that call, also when the run's own context has ended.
func TestGraphMetricsThatStayOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := worldOn(t, collective.NewMemory(time.Millisecond, 0), 4)
		own := NewGraphMetrics(false)
		own.Enable()
		handlers := []collective.Handler{
			own.Handle,
			func(context.Context, *collective.Request) (any, error) {
				return []byte(`{"cudagraph_metrics":true}`), nil
			},
			func(context.Context, *collective.Request) (any, error) { return nil, errors.New("no device") },
			func(ctx context.Context, _ *collective.Request) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		}
		for rank, comm := range comms {
			if err := comm.Handle(GraphMetricsMethod, handlers[rank]); err != nil {
				t.Fatal(err)
			}
			comm.Ready()
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		err := own.Restore(ended, comms[0])
		for _, part := range []string{`rank 1 answers "{\"cudagraph_metrics\":true}"`, "rank 2: ", "no device", "rank 3: "} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("got %v, want %q", err, part)
			}
		}
		if took := time.Since(begin); took > graphMetricsTimeout+time.Second {
			t.Errorf("took %v", took)
		}
		if own.On() {
			t.Error("rank 0 is still on")
		}
	})
}

// Without the option, and from an engine that does not tell all of it, a step's dispatch is unavailable, never NONE.
func TestDispatchThatIsNotObserved(t *testing.T) {
	off := NewGraphMetrics(false)
	for _, c := range []struct {
		name     string
		dispatch gpu.Dispatch
		metrics  *GraphMetrics
		observed bool
	}{
		{"observed", gpu.Dispatch{Mode: gpu.GraphFull, Unpadded: 3, Padded: 4}, NewGraphMetrics(true), true},
		{"option off", gpu.Dispatch{Mode: gpu.GraphFull, Unpadded: 3, Padded: 4}, off, false},
		{"no mode", gpu.Dispatch{Unpadded: 3, Padded: 4}, NewGraphMetrics(true), false},
		{"no padded tokens", gpu.Dispatch{Mode: gpu.GraphFull, Unpadded: 3}, NewGraphMetrics(true), false},
	} {
		got := observedGraph(c.dispatch, c.metrics)
		if c.observed && (got.Status != "observed" || *got.RuntimeMode != "FULL" || *got.Paddings != 1) || !c.observed && got != (artifact.Cudagraph{Status: "unavailable"}) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	outcomes, _ := runAll(t, 1, func(_ int, c *Config, _ *fake) { c.GraphMetrics = off })
	if _, err := artifact.Merge(documents(t, outcomes), "m.json"); err != nil {
		t.Error(err)
	}
	for _, row := range outcomes[0].doc.Results {
		for _, raw := range row.FPMs[0].Measurement.Raw {
			if raw.Sample.Cudagraph != (artifact.Cudagraph{Status: "unavailable"}) {
				t.Errorf("point %d: %+v", row.Point.BenchmarkID, raw.Sample.Cudagraph)
			}
		}
	}
}
