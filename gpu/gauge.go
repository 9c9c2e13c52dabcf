package gpu

import (
	"context"
	"fmt"
	"time"
)

// Bursts is how often a ceiling is measured for one reading; the best counts.
const Bursts = 5

// Gauge is an engine that can measure what bounds its steps.
type Gauge interface {
	// Ceilings reads memory in one sweep and multiplies large matrices, on random data and several times each, and returns the best rates. Memory for it is
	// taken at the first call, so that must come before anything that is timed. No step may be in flight.
	Ceilings(ctx context.Context) (Device, error)
}

// BestRate is work per second of the fastest of Bursts runs.
func BestRate(ctx context.Context, work float64, run func() error) (float64, error) {
	best := time.Duration(0)
	for range Bursts {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("gpu: measuring a ceiling: %w", context.Cause(ctx))
		}
		begin := Monotonic()
		if err := run(); err != nil {
			return 0, err
		}
		if took := max(1, time.Duration(Monotonic()-begin)); best == 0 || took < best {
			best = took
		}
	}
	return work / best.Seconds(), nil
}
