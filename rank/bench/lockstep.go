package bench

import (
	"context"
	"fmt"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// lockstep keeps engines that share experts in step while their points are prepared, when one may have more to compute than another: a step
// finishes only if every engine takes one, since each waits for the tokens of all. Before each round the leaders tell each other whether they
// have a step; while one has, those that have none take a step without rows. The measured steps need none of this: their number is agreed before.
type lockstep struct {
	on      bool // the engines share experts; else each goes its own way
	leaders *collective.Comm
	forward *forward
	vote    []int32
	idle    []gpu.Step // one, without rows
	outs    []gpu.Output
}

func newLockstep(on bool, leaders *collective.Comm, f *forward) lockstep {
	return lockstep{on: on && leaders.Size() > 1, leaders: leaders, forward: f, vote: make([]int32, 1), idle: make([]gpu.Step, 1), outs: make([]gpu.Output, 1)}
}

// work runs steps of a preparation.
func (l *lockstep) work(ctx context.Context, steps []gpu.Step) error {
	if !l.on {
		return l.forward.prepare(ctx, steps)
	}
	for k := range steps {
		if _, err := l.any(ctx, 1); err != nil {
			return err
		}
		if err := l.forward.prepare(ctx, steps[k:k+1]); err != nil {
			return err
		}
	}
	return nil
}

// settle ends a preparation: it steps with the others for as long as one of them has work, and returns when none has.
func (l *lockstep) settle(ctx context.Context) error {
	for l.on {
		more, err := l.any(ctx, 0)
		if err != nil || !more {
			return err
		}
		if _, err := l.forward.run(ctx, l.idle, l.outs, unstamped); err != nil {
			return fmt.Errorf("bench: step of an idle rank: %w", err)
		}
	}
	return nil
}

// any reports whether a rank has a step; own is 1 on one that has.
func (l *lockstep) any(ctx context.Context, own int32) (bool, error) {
	l.vote[0] = own
	if err := collective.AllReduceInto(ctx, l.leaders, l.vote, l.vote, collective.Max); err != nil {
		return false, fmt.Errorf("bench: step together: %w", err)
	}
	return l.vote[0] > 0, nil
}
