package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/rank"
	"github.com/fpmrun/fpmrun/rank/env"
)

// bench is the run of one rank, from the command line to the files.
func (p *program) bench(parent context.Context, o *options) (err error) {
	getenv := p.getenv
	if o.single {
		getenv = func(string) string { return "" }
	}
	identity, err := rank.Identify(getenv)
	if err != nil {
		return exit.AsUsage(err)
	}
	topology, err := rank.Agree(identity, env.Topology{DP: o.dp.Value, PP: o.pp.Value, PCP: o.pcp.Value, TP: o.tp.Value})
	if err != nil {
		return exit.AsUsage(err)
	}
	place := topology.Place(identity.Rank)
	o.text.unread = place.TP+place.PCP+place.PP > 0
	planner := *p
	if o.repeat.Value > 1 {
		planner.log = slog.New(slog.DiscardHandler) // each launch says it again
	}
	pl, err := planner.plan(o, topology, identity)
	if err != nil {
		return exit.AsUsage(err)
	}
	defer func() { err = errors.Join(err, pl.weights.Close()) }()
	if o.dryRun {
		return p.dryRun(pl)
	}
	if o.repeat.Value > 1 {
		return p.repeat(parent, o, getenv, identity, topology)
	}
	ctx, stopper := newStopper(parent)
	defer stopper.close()
	world, auth, err := rank.Join(ctx, identity, rank.Options{Getenv: getenv, Logger: p.log, RequireSecret: o.requireSecret})
	if err != nil {
		return err
	}
	defer func() { //nolint:contextcheck // leaving is bounded by the linger, also when ctx has ended
		err = errors.Join(err, world.Close())
	}()
	return p.measure(ctx, o, pl, identity, auth, world, stopper)
}
