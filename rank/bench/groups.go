package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
)

// StepLimit is how long a rank waits for the other ranks' part of a step before it calls them stuck: the CPU engine may take minutes for one.
const StepLimit = 5 * time.Minute

// leaderGrace is how much longer the leaders wait for each other, so that those who wait for a stuck rank inside a step name it first.
const leaderGrace = 20 * time.Second

// Groups are the channels between the ranks of a run.
type Groups struct {
	World   *collective.Comm
	Workers *collective.Comm // the workers of this rank's DP engine, by their rank in it; rank 0 is the leader
	Leaders *collective.Comm // on a leader the leaders of all DP ranks, by DP rank; on other workers those of the same place
	Tensor  *collective.Comm // inside a step, between the workers; nil for one worker
	Experts *collective.Comm // inside a step, between the workers of all engines

	DPRank int
	Worker int // rank in the DP engine
	Limit  time.Duration
}

// NewGroups splits the world, whose order is DP x PP x PCP x TP, into engines of the given sizes. All ranks call it. limit bounds a rank's
// wait for others inside a step, above 0. With an error the result is what there is, for GiveUp.
func NewGroups(ctx context.Context, world *collective.Comm, sizes artifact.Sizes, limit time.Duration) (*Groups, error) {
	n := sizes.Workers()
	g := &Groups{World: world, DPRank: world.Rank() / n, Worker: world.Rank() % n, Limit: limit}
	var err error
	if g.Workers, err = world.Split(ctx, g.DPRank, g.Worker); err != nil {
		return g, fmt.Errorf("bench: group of the workers of DP rank %d: %w", g.DPRank, err)
	}
	g.Workers.SetTimeout(limit)
	color := 0
	if g.Worker > 0 {
		color = 1 + g.Worker
	}
	if g.Leaders, err = world.Split(ctx, color, g.DPRank); err != nil {
		return g, fmt.Errorf("bench: group of the DP leaders: %w", err)
	}
	g.Leaders.SetTimeout(limit + leaderGrace)
	if n > 1 {
		if g.Tensor, err = g.Workers.Dup(ctx); err != nil {
			return g, fmt.Errorf("bench: tensor-parallel group of DP rank %d: %w", g.DPRank, err)
		}
	}
	if g.Experts, err = world.Dup(ctx); err != nil {
		return g, fmt.Errorf("bench: expert-parallel group: %w", err)
	}
	g.Experts.SetTimeout(limit)
	return g, nil
}

// IsLeader reports whether this rank schedules its engine's steps.
func (g *Groups) IsLeader() bool { return g.Worker == 0 }

// TensorGroup is what an engine reduces over; nil for one worker.
func (g *Groups) TensorGroup() gpu.Group {
	if g.Tensor == nil {
		return nil
	}
	return TensorGroup{Comm: g.Tensor}
}

// Follow executes on a worker what its leader sends, until the leader closes its engine and all ranks are done.
func (g *Groups) Follow(ctx context.Context, engine gpu.Engine) error {
	if err := NewFollower(engine, g.Workers, g.Limit).Run(ctx); err != nil {
		return err
	}
	if err := g.World.Barrier(ctx); err != nil {
		return fmt.Errorf("bench: wait for the end of the run: %w", err)
	}
	return nil
}

// GiveUp ends the run on every rank because it failed on this one. It breaks the world and the groups with the failure as the reason:
// whoever waits in one of them, or enters one later, gets it. The result is err; where the world was broken before, by the rank that
// failed first or by the loss of one, it says that as well, since what this rank saw may be no more than another one leaving.
func (g *Groups) GiveUp(err error) error {
	return giveUp(err, g.World, g.Leaders, g.Tensor, g.Experts, g.Workers)
}
