package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
)

// errStuck is the cause with which an await ends that took too long.
var errStuck = errors.New("bench: the step is stuck")

// ownLimit is how long a rank waits for its own engine. Whoever waits for a stuck rank ends much sooner (StepLimit): a large model's step may take a CPU
// longer than that while nobody waits for anybody.
const ownLimit = time.Hour

// watch bounds awaits without allocating for each: its context is made once and ends when its timer fires. The zero watch is ready.
type watch struct {
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// await is engine.Await bounded by limit; 0 = none.
func (w *watch) await(ctx context.Context, engine gpu.Engine, out *gpu.Output, limit time.Duration) error {
	if limit == 0 {
		return engine.Await(ctx, out)
	}
	if w.parent != ctx {
		w.stop()
		w.parent = ctx
		inner, cancel := context.WithCancelCause(ctx)
		w.ctx, w.cancel = inner, cancel
		w.timer = time.AfterFunc(limit, func() { cancel(errStuck) })
	} else {
		w.timer.Reset(limit)
	}
	err := engine.Await(w.ctx, out) //nolint:contextcheck // w.ctx comes from ctx, above or in a call before
	w.timer.Stop()
	if err != nil && context.Cause(w.ctx) == errStuck { //nolint:errorlint,contextcheck // the very cause that was set above
		return fmt.Errorf("no output after %v: %w", limit, err)
	}
	return err
}

// stop frees what await made.
func (w *watch) stop() {
	if w.cancel != nil {
		w.timer.Stop()
		w.cancel(nil)
	}
}
