//go:build linux && cgo

package cuda

import (
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// With Timing each step has the device's own time, also with two in flight; without it there is no event.
func TestTiming(t *testing.T) {
	needGPU(t)
	for _, timed := range []bool{false, true} {
		for _, mode := range []string{"NONE", "FULL"} {
			cfg := graphs(t, mode)
			cfg.Timing = timed
			e := openEngine(t, cfg)
			if (e.timing != nil) != timed {
				t.Fatalf("timed %v: events are there: %v", timed, e.timing != nil)
			}
			begin := gpu.Monotonic()
			for range depth {
				if err := e.Enqueue(fiveRows(cfg)); err != nil {
					t.Fatal(err)
				}
			}
			sum := int64(0)
			for range depth {
				out := gpu.Output{Device: 7}
				if err := e.Await(t.Context(), &out); err != nil {
					t.Fatal(err)
				}
				if (out.Device > 0) != timed {
					t.Errorf("timed %v, %s: %d ns", timed, mode, out.Device)
				}
				sum += out.Device
			}
			if took := gpu.Monotonic() - begin; sum > took {
				t.Errorf("%s: %d ns of steps in %d ns", mode, sum, took)
			}
		}
	}
}
