package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank"
	"github.com/fpmrun/fpmrun/rank/env"
)

// repeatFile is the document about all launches, in the folder that holds theirs.
const repeatFile = "repeat.json"

// stopMethod is the RPC by which a rank whose process failed ends those of the others, which might wait for it.
const stopMethod = "fpm_repeat_stop"

// repetition is the part of one rank in a run that is launched several times. The rank's process does not measure: for each launch it starts one that
// does, in its own place (same rank, CPUs, GPU and environment), so that a launch is a fresh gang of processes whatever launcher there is.
type repetition struct {
	p        *program
	o        *options
	getenv   func(string) string
	id       rank.Identity
	topology env.Topology
	world    *collective.Comm
	child    child
	base     string           // path that the launches' paths are made of
	record   *artifact.Repeat // on rank 0
}

// outcome is how one rank's process of a launch ended.
type outcome struct {
	Status  int
	Failed  string // why it could not be started
	Stopped string // the signal that asked this rank to stop, or ""
}

// verdict is what rank 0 makes of a launch.
type verdict struct {
	More bool
	Code int    // exit status, when there is no further launch
	Text string // why
}

// repeat runs all launches. See repetition.
func (p *program) repeat(ctx context.Context, o *options, getenv func(string) string, id rank.Identity, topology env.Topology) (err error) {
	r := &repetition{p: p, o: o, getenv: getenv, id: id, topology: topology}
	defer r.child.listen()()
	if r.world, _, err = rank.Join(ctx, id, rank.Options{Getenv: getenv, Logger: p.log}); err != nil {
		return err
	}
	defer func() { //nolint:contextcheck // leaving is bounded by the linger
		err = errors.Join(err, r.world.Close())
	}()
	r.world.SetTimeout(0) // a launch takes as long as it takes
	if err := r.world.Handle(stopMethod, func(context.Context, *collective.Request) (any, error) {
		r.child.stop()
		return nil, nil
	}); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	for number := 1; ; number++ {
		v, err := r.launch(ctx, number)
		if err != nil {
			return err
		}
		if v.More {
			continue
		}
		switch {
		case v.Code == 0:
			return nil
		case v.Text == "":
			return exit.Status{Code: v.Code}
		}
		return exit.Status{Code: v.Code, Err: errors.New(v.Text)}
	}
}

// begin agrees on the folder, in which there must be no other repetition.
func (r *repetition) begin(ctx context.Context) error {
	id, err := agreeRunID(ctx, r.world)
	if err != nil {
		return err
	}
	if r.base = r.o.outputPath; r.base == "" {
		r.base = filepath.Join("fpm-results", id, "benchmark.json")
	}
	wrong := ""
	if r.world.Rank() == 0 {
		r.record = artifact.NewRepeat(r.o.repeat.Value, r.o.order.Value, r.o.stopCV.limit(), r.o.stopShare.limit())
		if err := r.prepare(); err != nil {
			wrong = err.Error()
		}
	}
	wrong, err = collective.Broadcast(ctx, r.world, 0, wrong)
	if err == nil && wrong != "" {
		err = errors.New(wrong)
	}
	return err
}

// prepare makes the folder on rank 0.
func (r *repetition) prepare() error {
	path := r.path()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil && !r.o.overwrite {
		return fmt.Errorf("refusing to overwrite %q; choose another --output-path or pass --overwrite", path)
	}
	return artifact.WriteFile(path, r.record)
}

func (r *repetition) path() string { return filepath.Join(filepath.Dir(r.base), repeatFile) }

// launch runs one launch and agrees on what follows.
func (r *repetition) launch(ctx context.Context, number int) (verdict, error) {
	l, release, err := r.agreeLaunch(ctx, number)
	if err != nil {
		return verdict{}, err
	}
	own := r.run(ctx, l)
	all, err := collective.AllGather(ctx, r.world, own)
	if err := errors.Join(err, release()); err != nil {
		return verdict{}, fmt.Errorf("agree on the end of launch %d: %w", number, err)
	}
	var v verdict
	if r.world.Rank() == 0 {
		v = r.judge(l, all)
	}
	if v, err = collective.Broadcast(ctx, r.world, 0, v); err != nil {
		return verdict{}, fmt.Errorf("agree on what follows launch %d: %w", number, err)
	}
	return v, nil
}

// agreeLaunch gives a launch its name, its secret and its place to meet. release gives the place up.
func (r *repetition) agreeLaunch(ctx context.Context, number int) (l launch, release func() error, err error) {
	release = func() error { return nil }
	wrong := ""
	if r.world.Rank() == 0 {
		secret := make([]byte, 32)
		if _, err := rand.Read(secret); err != nil {
			return l, release, err
		}
		l = launch{Number: number, Order: orderOf(r.o.order.Value, number), Output: launchOutput(r.base, number), Token: hex.EncodeToString(secret),
			RunID: fmt.Sprintf("%s-launch-%d", r.id.RunID, number)}
		if r.id.Size > 1 {
			host, _, err := net.SplitHostPort(r.id.Rendezvous[0])
			if err == nil {
				l.Rendezvous, release, err = reservePort(host)
			}
			if err != nil {
				wrong, release = err.Error(), func() error { return nil }
			}
		}
		r.p.log.Info("launch", "number", number, "of", r.o.repeat.Value, "order", l.Order)
	}
	type message struct {
		Launch launch
		Wrong  string
	}
	m, err := collective.Broadcast(ctx, r.world, 0, message{l, wrong})
	if err == nil && m.Wrong != "" {
		err = errors.New(m.Wrong)
	}
	if err != nil {
		return l, release, errors.Join(fmt.Errorf("agree on launch %d: %w", number, err), release())
	}
	return m.Launch, release, nil
}

// run runs this rank's process of a launch. When it fails, those of the other ranks are ended.
func (r *repetition) run(ctx context.Context, l launch) outcome {
	var own outcome
	environ, err := l.environ(r.p.environ, r.getenv, r.id, r.topology)
	if err == nil {
		own.Status, err = r.child.run(r.p, environ)
	}
	if err != nil {
		own.Status, own.Failed = exit.Failed, err.Error()
	}
	if sig := r.child.stopped(); sig != nil {
		own.Stopped = sig.String()
	}
	if own.Status != 0 && own.Status != exitPartial {
		for _, reply := range r.world.CallAll(ctx, stopMethod, nil) {
			if reply.Err != nil {
				r.p.log.Debug("a rank cannot be asked to stop", "error", reply.Err)
			}
		}
	}
	return own
}

// status of a process that a signal ended.
const killed = 128

// failure is the rank whose process failed first, as far as statuses tell: one that was killed, or else says something else than that it failed, which is
// what the others say that lost it.
func failure(all []outcome) int {
	worst := -1
	rate := func(o outcome) int {
		switch {
		case o.Status == 0 || o.Status == exitPartial:
			return 0
		case o.Status == killed+int(syscall.SIGTERM): // ended by us
			return 1
		case o.Status == exit.Failed && o.Failed == "":
			return 2
		}
		return 3
	}
	for rank, o := range all {
		if rate(o) > 0 && (worst < 0 || rate(o) > rate(all[worst])) {
			worst = rank
		}
	}
	return worst
}
