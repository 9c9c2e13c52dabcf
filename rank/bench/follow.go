package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// Follower executes on a worker what the leader of its engine sends. Methods are called from one goroutine.
type Follower struct {
	engine  gpu.Engine
	workers *collective.Comm
	limit   time.Duration
	frames  frameReader
	frame   []byte // (frameSize)
	long    []byte // memory of the bodies that do not fit a frame
	out     gpu.Output
	vote    []int32
	depth   int
	flight  int // steps enqueued and not awaited
	watch   watch
}

// NewFollower makes the follower of a worker; the leader is rank 0 of the group. limit bounds its waits for the
// others, above 0; between two messages any time may pass.
func NewFollower(engine gpu.Engine, workers *collective.Comm, limit time.Duration) *Follower {
	depth := max(1, engine.Info().Depth)
	return &Follower{engine: engine, workers: workers, limit: limit, frames: newFrameReader(depth), frame: make([]byte, frameSize),
		vote: make([]int32, 1), depth: depth}
}

// Run executes messages until the leader closes its engine. Errors name this worker's rank in the world.
func (f *Follower) Run(ctx context.Context) error {
	defer f.watch.stop()
	for {
		if more, err := f.Next(ctx); err != nil || !more {
			return err
		}
	}
}

// Next waits for one message and executes it. It reports false when that was the end, the engine then being closed. A step is
// launched when Next returns, and awaited as soon as the engine has no room for another.
func (f *Follower) Next(ctx context.Context) (more bool, err error) {
	f.workers.SetTimeout(0)
	err = collective.BroadcastInto(ctx, f.workers, 0, f.frame)
	f.workers.SetTimeout(f.limit)
	if err != nil {
		return false, fmt.Errorf("bench: wait for the leader: %w", err)
	}
	switch f.frame[0] {
	case frameStep, frameNext:
		err = f.step(ctx)
	case frameFinite:
		if err = f.drain(ctx, 0); err == nil {
			_, err = allFinite(ctx, f.engine, f.workers, f.vote)
		}
	case frameClose:
		if err = f.drain(ctx, 0); err == nil {
			return false, f.engine.Close()
		}
	default:
		err = fmt.Errorf("bench: message of unknown kind %d from the leader", f.frame[0])
	}
	if err != nil {
		return false, fmt.Errorf("bench: worker %d of %d, rank %d: %w", f.workers.Rank(), f.workers.Size(), f.workers.WorldRank(f.workers.Rank()), err)
	}
	return true, nil
}

// step receives the rest of a step and launches it.
func (f *Follower) step(ctx context.Context) error {
	size, err := f.frames.body(f.frame)
	if err != nil {
		return err
	}
	if size > 0 {
		if cap(f.long) < size {
			f.long = make([]byte, size)
		}
		if err := collective.BroadcastInto(ctx, f.workers, 0, f.long[:size]); err != nil {
			return fmt.Errorf("receive a step of %d bytes: %w", size, err)
		}
	}
	step, err := f.frames.step(f.frame, f.long[:size])
	if err != nil {
		return err
	}
	if err := f.engine.Enqueue(step); err != nil {
		return err
	}
	f.flight++
	return f.drain(ctx, f.depth-1)
}

// drain awaits steps until no more than most are in flight.
func (f *Follower) drain(ctx context.Context, most int) error {
	for ; f.flight > most; f.flight-- {
		if err := f.watch.await(ctx, f.engine, &f.out, ownLimit); err != nil {
			return err
		}
	}
	return nil
}
