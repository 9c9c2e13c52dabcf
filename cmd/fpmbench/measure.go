package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/rank"
	"github.com/fpmrun/fpmrun/rank/bench"
)

// measure is one rank's part of the run once the world has met.
func (p *program) measure(ctx context.Context, o *options, pl *plan, id rank.Identity, auth string, world *collective.Comm, stopper *stopper) (err error) {
	place := pl.topology.Place(world.Rank())
	sizes := artifact.Sizes{TP: pl.topology.TP, PCP: pl.topology.PCP, PP: pl.topology.PP}
	worker := world.Rank() % sizes.Workers()
	groups := &bench.Groups{World: world}
	var published *live
	defer func() { err = errors.Join(err, published.end()) }() // when the others know of an error: subscribers may take a second
	defer func() {                                             //nolint:contextcheck // giving up waits for nobody
		if err != nil && !errors.As(err, &exit.Status{}) {
			err = groups.GiveUp(err)
		}
	}()
	runID, err := agreeRunID(ctx, world)
	if err != nil {
		return err
	}
	pl.bench.Resume = o.resume != ""
	if pl.bench.OutputPath, err = o.agreedOutput(ctx, world, runID); err != nil {
		return err
	}
	if worker == 0 {
		var output *bench.Output
		if output, err = o.prepareOutput(pl.bench.OutputPath, place.DP); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, output.Close()) }()
	}
	var serving *server
	if o.serve != "" && world.Rank() == 0 {
		if serving, err = listen(ctx, o.serve); err != nil {
			return err
		}
		defer func() { //nolint:contextcheck // closing is bounded, also when ctx has ended
			err = errors.Join(err, serving.close())
		}()
	}
	if worker == 0 {
		if published, err = p.stream(ctx, o, place.DP, pl.topology.DP, os.DirFS("/proc")); err != nil {
			return err
		}
		pl.bench.Live = published.record(&o.stream)
	}
	graph := bench.NewGraphMetrics(o.graphMetrics)
	graph.Enable()
	defer graph.Disable()
	pl.bench.GraphMetrics = graph
	if err := world.Handle(bench.GraphMetricsMethod, graph.Handle); err != nil {
		return err
	}
	if groups, err = bench.NewGroups(ctx, world, sizes, bench.StepLimit); err != nil {
		return err
	}
	engine, err := newEngine(pl.engine, pl.engineConfig(groups), pl.device, o.noAsync)
	if err != nil {
		return err
	}
	if pl.bench.Roofline, err = pl.gauge(engine); err != nil {
		return err
	}
	if pl.bench.HostEvidence {
		var gpus *bench.HostGPUs
		if gpus, err = p.readGPUs(ctx, groups, engine.Info()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, gpus.Close()) }()
		pl.bench.GPUs = gpus.Read
	}
	if err := world.Handle(bench.ProbeMethod, bench.ProbeHandler(engine.Info(), pl.bench.Graph, place.DP, worker, sizes)); err != nil {
		return err
	}
	if !groups.IsLeader() {
		return groups.Follow(ctx, engine)
	}
	own := newOwn(id, auth, engine.Info().Host, o.evidence.Value)
	if staged, ok := bare(engine).(gpu.Staged); ok {
		pl.bench.Prepared = func() { p.prepared(own, staged.Stages()) }
	}
	engine = bench.Lead(engine, groups.Workers)
	own.Launch.Repeat = o.launch
	pl.bench.Own, pl.bench.History = own, &own.History
	pl.bench.Launch = artifact.Launch{Version: version, Host: own.Host.Name, PID: own.Launch.PID}
	pl.bench.Engine = bench.Provenance(&pl.bench, bench.Setup{Info: engine.Info(), Geometry: pl.geometry, Model: pl.model, WeightSeed: o.seed(),
		DPSize: pl.topology.DP, Sizes: sizes, Version: version})
	return p.lead(ctx, o, pl, engine, groups, runID, own, stopper, serving, published)
}

// lead runs the benchmark on the leader of a DP rank and publishes what came of it.
func (p *program) lead(ctx context.Context, o *options, pl *plan, engine gpu.Engine, groups *bench.Groups, runID string, own *own, stopper *stopper, serving *server, live *live) error {
	leaders := groups.Leaders
	var bar *progress
	if leaders.Rank() == 0 {
		bar = newProgress(p.stderr)
		pl.bench.Progress = bar.update
	}
	session, err := bench.New(pl.bench, engine, leaders)
	if err != nil {
		return err
	}
	asked := make(chan struct{})
	stopper.use(func() { // once
		close(asked)
		session.Stop()
	})
	live.wait(ctx, time.Duration(o.stream.wait), asked)
	doc, stopped, err := session.Run(ctx, runID)
	if bar != nil {
		bar.finish()
	}
	if stopped {
		own.StoppedBy = stopper.reason()
	}
	own.Stream, own.Diagnostic = live.evidence(&o.stream), session.Diagnostic()
	if o.progress {
		if own.Diagnostic == nil {
			own.Diagnostic = &artifact.Diagnostic{}
		}
		own.Diagnostic.Progress = true
	}
	if err == nil {
		live.resume()
		err = own.floors(ctx, session, o.explained)
	}
	if err != nil && !session.Began() && pl.bench.Resume {
		return err // what the earlier run left is better than a document that says only that this one failed
	}
	if pl.bench.Resume && leaders.Rank() == 0 { // they are of an earlier launch, and the rank's document no longer is
		err = errors.Join(err, bench.RemoveMerged(pl.bench.OutputPath, o.probePath))
	}
	if path, werr := bench.WriteRank(doc); werr != nil || err != nil {
		if werr == nil {
			p.log.Error("the run failed; what was measured is in the rank's document", "path", path)
		}
		return errors.Join(err, werr)
	}
	published, err := bench.Publish(ctx, doc, bench.Publication{World: groups.World, Leaders: leaders, Base: pl.bench.OutputPath, ProbePath: o.probePath, Diagnosis: o.diagnostic(), Logger: p.log})
	if err != nil {
		return err
	}
	if leaders.Rank() == 0 {
		if err := pl.bench.GraphMetrics.Restore(ctx, groups.World); err != nil {
			p.log.Warn("after the run", "error", err)
		}
	}
	if err := engine.Close(); err != nil { // lets the other workers go
		return err
	}
	if err := groups.World.Barrier(ctx); err != nil {
		return fmt.Errorf("wait for the end of the probe: %w", err)
	}
	if leaders.Rank() == 0 {
		if err := errors.Join(p.summary(doc, published), p.floors(doc, own.Roofline)); err != nil {
			return err
		}
	}
	if serving != nil && !stopper.signalled() {
		serving.metrics.Show(published.Metrics)
		p.log.Info("serving the documents until a signal comes", "url", "http://"+serving.address+"/"+bench.MetricsMethod)
		stop := make(chan struct{})
		stopper.use(func() { close(stop) })
		if err := serving.wait(ctx, stop); err != nil {
			return err
		}
	}
	if o.serve != "" && live != nil { // the others publish as long as rank 0 serves
		leaders.SetTimeout(0)
		if err := leaders.Barrier(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for the end of --serve: %w", err)
		}
	}
	if err := own.Roofline.Err(); err != nil {
		return exit.Status{Code: exit.Failed, Err: fmt.Errorf("--roofline: %w", err)}
	}
	if stopped {
		return exit.Status{Code: exitPartial, Err: fmt.Errorf("stopped early by %s: %d of %d points were measured, and are valid", own.StoppedBy, len(doc.Results), doc.Coverage.Expected)}
	}
	return nil
}

// agreeRunID gives the launch an id that no other has.
func agreeRunID(ctx context.Context, world *collective.Comm) (string, error) {
	id := make([]byte, 16)
	if world.Rank() == 0 {
		if _, err := rand.Read(id); err != nil {
			return "", err
		}
	}
	id, err := collective.BroadcastBytes(ctx, world, 0, id)
	if err != nil {
		return "", fmt.Errorf("agree on the run id: %w", err)
	}
	return hex.EncodeToString(id), nil
}

// summary prints the table and the files.
func (p *program) summary(doc *artifact.Rank, files bench.Published) error {
	if err := artifact.WriteTable(p.stdout, artifact.Summarize(doc.Groups)); err != nil {
		return err
	}
	written := []string{files.Merged, files.Sidecar}
	if files.Merged == "" { // of a diagnostic run
		written = []string{files.Rank}
	}
	for _, path := range written {
		if path != "" {
			if _, err := fmt.Fprintln(p.stdout, path); err != nil {
				return err
			}
		}
	}
	return nil
}
