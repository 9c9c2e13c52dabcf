package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// Lead wraps the leader's engine so that every step also runs on the other workers of the group, whose rank 0 the leader is: a
// step is one broadcast of 64 bytes, and a second one where its rows do not fit. For a group of one the engine itself is returned.
func Lead(engine gpu.Engine, workers *collective.Comm) gpu.Engine {
	if workers.Size() == 1 {
		return engine
	}
	return &leading{Engine: engine, workers: workers, vote: make([]int32, 1)}
}

type leading struct {
	gpu.Engine
	workers *collective.Comm
	frames  frameWriter
	vote    []int32
}

// Enqueue sends the step to the workers and launches it here. See gpu.Engine.
func (l *leading) Enqueue(step *gpu.Step) error {
	if err := l.frames.step(step); err != nil {
		return err
	}
	if err := l.send(); err != nil {
		return err
	}
	return l.Engine.Enqueue(step)
}

// Finite asks every worker about its share of the logits. A worker that does not answer in the time limit of the group is
// named. See gpu.Engine.
func (l *leading) Finite() (bool, error) {
	l.frames.bare(frameFinite)
	if err := l.send(); err != nil {
		return false, err
	}
	return allFinite(context.Background(), l.Engine, l.workers, l.vote)
}

// Close ends the workers' loops and closes the leader's engine. See gpu.Engine.
func (l *leading) Close() error {
	l.frames.bare(frameClose)
	return errors.Join(l.send(), l.Engine.Close())
}

func (l *leading) send() error {
	err := collective.BroadcastInto(context.Background(), l.workers, 0, l.frames.frame[:])
	if err == nil && len(l.frames.long) > 0 {
		err = collective.BroadcastInto(context.Background(), l.workers, 0, l.frames.long)
	}
	if err != nil {
		return fmt.Errorf("bench: send to the workers: %w", err)
	}
	return nil
}

// allFinite combines the workers' answers; vote has room for one.
func allFinite(ctx context.Context, engine gpu.Engine, workers *collective.Comm, vote []int32) (bool, error) {
	finite, err := engine.Finite()
	if err != nil {
		return false, err
	}
	vote[0] = 0
	if finite {
		vote[0] = 1
	}
	if err := collective.AllReduceInto(ctx, workers, vote, vote, collective.Min); err != nil {
		return false, fmt.Errorf("bench: compare logits: %w", err)
	}
	return vote[0] == 1, nil
}
