package main

import (
	"context"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
	rankbench "github.com/fpmrun/fpmrun/rank/bench"
)

// stepBytes is the message of a steady step.
const stepBytes = 64

// engineStep is the operation "step": what a steady decode step costs between the leader of a tensor-parallel engine, rank 0, and its
// workers, from the leader's call to the moment at which a worker has woken up and launches it.
type engineStep struct {
	leader   gpu.Engine // on rank 0
	follower *rankbench.Follower
	step     gpu.Step
}

// newEngineStep makes the operation on a channel of its own, as an engine has it.
func newEngineStep(ctx context.Context, comm *collective.Comm) (*engineStep, error) {
	workers, err := comm.Dup(ctx)
	if err != nil {
		return nil, err
	}
	e := &engineStep{follower: rankbench.NewFollower(nothing{}, workers, rankbench.StepLimit), leader: rankbench.Lead(nothing{}, workers)}
	e.step.Rows = make([]gpu.Row, 8)
	for i := range e.step.Rows {
		e.step.Rows[i] = gpu.Row{Slot: i, Computed: 1024, Blocks: make([]int32, 128)}
	}
	return e, nil
}

// run takes one step.
func (e *engineStep) run(ctx context.Context, rank int) error {
	if rank > 0 {
		_, err := e.follower.Next(ctx)
		return err
	}
	for i := range e.step.Rows {
		e.step.Rows[i].Computed++
	}
	return e.leader.Enqueue(&e.step)
}

// nothing is an engine whose steps take no time.
type nothing struct{ gpu.Engine }

// Info implements gpu.Engine.
func (nothing) Info() gpu.Info { return gpu.Info{Depth: 1} }

// Enqueue implements gpu.Engine.
func (nothing) Enqueue(*gpu.Step) error { return nil }

// Await implements gpu.Engine.
func (nothing) Await(context.Context, *gpu.Output) error { return nil }
