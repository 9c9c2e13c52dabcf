package gpu

import (
	"context"
	"fmt"
	"time"
)

// A ceiling is measured Bursts times for one reading, and up to MostBursts times while it stays below what earlier ones reached: a ceiling is what the device can do,
// and right after a step that took all its power it may do less for a moment. The best counts.
const (
	Bursts     = 5
	MostBursts = 5 * Bursts
)

// reachedAgain is the part of the best earlier reading that a reading is repeated for.
const reachedAgain = 0.99

// Gauge is an engine that can measure what bounds its steps.
type Gauge interface {
	// Ceilings reads memory in one sweep and multiplies large matrices, on random data and several times each, and returns the best rates. Memory for it is
	// taken at the first call, so that must come before anything that is timed. No step may be in flight.
	Ceilings(ctx context.Context) (Device, error)
}

// BestRate is work per second of the fastest of Bursts runs, or more where these do not come near reached, the best of the earlier readings (0 for none).
func BestRate(ctx context.Context, work, reached float64, run func() error) (float64, error) {
	best := time.Duration(0)
	for n := 0; n < Bursts || n < MostBursts && work/best.Seconds() < reachedAgain*reached; n++ {
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
