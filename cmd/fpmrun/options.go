package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/launcher"
	"github.com/fpmrun/fpmrun/launcher/machine"
	"github.com/fpmrun/fpmrun/rank/env"
)

// run plans and runs the job.
func (o *options) run(ctx context.Context, args, environ []string, s launcher.Streams) (int, error) {
	lo, err := o.launcher(args, environ)
	if err != nil {
		return 0, exit.AsUsage(err)
	}
	if lo.Nodes.Node > 0 && !o.dryRun {
		return o.serve(ctx, lo, s)
	}
	plan, err := o.plan(lo) //nolint:contextcheck // the inventory has a deadline of its own
	if err != nil {
		return 0, exit.AsUsage(err)
	}
	if o.dryRun {
		return 0, o.print(plan, s)
	}
	var file *os.File
	if o.events != "" {
		if file, err = openEvents(o.events); err != nil {
			return 0, exit.AsUsage(err)
		}
		s.Events = file
	}
	var end launcher.End
	if plan == nil {
		end = launcher.Lead(ctx, lo, s)
	} else {
		end = launcher.Run(ctx, plan, s)
	}
	if file != nil {
		err = file.Close()
	}
	return end.Status, err
}

// plan is the job's plan; nil, without a dry run, where its nodes make it together.
func (o *options) plan(lo launcher.Options) (*launcher.Plan, error) {
	switch {
	case lo.Nodes.Nodes <= 1 && !lo.Nodes.Step:
		return launcher.NewPlan(lo)
	case !o.dryRun:
		return nil, lo.Check()
	case lo.Nodes.Step:
		return launcher.PreviewStep(lo)
	}
	return launcher.Preview(lo)
}

// serve runs the ranks of a node other than 0.
func (o *options) serve(ctx context.Context, lo launcher.Options, s launcher.Streams) (int, error) {
	n := lo.Nodes
	status, err := launcher.Serve(ctx, launcher.AgentConfig{Node: n.Node, Nodes: n.Nodes, Heads: []string{n.Rendezvous}, Token: n.Token, Options: &lo, Command: n.Command,
		Build: n.Build, Environ: lo.Environ, Siblings: lo.Siblings, Wait: lo.JoinTimeout}, s.Err)
	if errors.Is(err, collective.ErrToken) {
		err = fmt.Errorf("--token-file: %w", err)
	}
	if err != nil {
		return 0, exit.Status{Code: max(status, exit.Failed), Err: err}
	}
	return status, nil
}

// openEvents opens the file, or takes the open descriptor, that events are written to. The ranks do not inherit it.
func openEvents(name string) (*os.File, error) {
	number, ok := strings.CutPrefix(name, "fd:")
	if !ok {
		file, err := os.Create(name)
		if err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		return file, nil
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 {
		return nil, fmt.Errorf("--events %s: want fd:N with the number of an open descriptor, such as fd:3", name)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, fmt.Errorf("--events %s: descriptor %d is not open for writing; as in --events fd:3 3>job.jsonl", name, fd)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name), nil
}

// launcher turns the command line into the launcher's options.
func (o *options) launcher(args, environ []string) (launcher.Options, error) {
	lo := launcher.Options{
		Topology:  env.Topology{DP: o.dp.Value, PP: o.pp.Value, PCP: o.pcp.Value, TP: o.tp.Value},
		Resources: o.resources(),
		Environ:   environ, Timeout: time.Duration(o.timeout), KillGrace: time.Duration(o.grace), OnFailure: launcher.FailurePolicy(strings.Replace(o.onFailure.Value, "kill", "stop", 1)),
		SlowConsole: launcher.ConsolePolicy(o.slowConsole.Value), OutputSpill: int64(o.spill),
		OnQuit: launcher.QuitPolicy(o.onQuit.Value), Restarts: o.restarts.Value,
		JoinTimeout: time.Duration(o.join), Iface: o.iface, TLS: o.tls.Value, FlushPartial: time.Duration(o.flush), Status: time.Duration(o.status),
		PTY: o.pty, Tag: o.tag, Timestamp: o.timestamp, OutputDir: o.outputDir, Tee: o.tee, Files: o.redirects.files,
	}
	if o.flush == 0 {
		lo.FlushPartial = -1
	}
	var errs []error
	keep := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if o.json && !o.dryRun {
		keep(errors.New("--json goes with --dry-run"))
	}
	if lo.Resources.GPUsPerRank == 0 && o.mapBy.per != machine.PerGPU && (o.shareGPU || o.visibility.Value == "all") {
		keep(errors.New("--gpu-visibility and --oversubscribe-gpu go with --gpus-per-rank N"))
	}
	if o.tee && o.outputDir == "" {
		keep(errors.New("--tee goes with --output-dir DIR"))
	}
	if o.redirects.files != nil && o.outputDir == "" {
		keep(errors.New("--redirects goes with --output-dir DIR"))
	}
	var err error
	lo.Nodes, err = o.nodes(environ, o.words)
	keep(err)
	if self, err := os.Executable(); err == nil {
		lo.Siblings = filepath.Dir(self)
	}
	lo.Env, err = o.environment(environ)
	keep(err)
	lo.Segments, err = o.segments(args, environ)
	keep(err)
	lo.Stdin, err = stdinOf(o.stdin)
	keep(err)
	lo.Show, err = rankList(o.show)
	keep(err)
	name := strings.TrimPrefix(strings.ToUpper(o.killSignal), "SIG")
	if lo.KillSignal = unix.SignalNum("SIG" + name); lo.KillSignal == 0 {
		keep(fmt.Errorf("--kill-signal %s: want a name such as TERM or INT", o.killSignal))
	}
	return lo, errors.Join(errs...)
}

// environment is what --env-file and -x set, in this order.
func (o *options) environment(environ []string) ([]string, error) {
	var set []string
	if o.envFile != "" {
		text, err := os.ReadFile(o.envFile)
		if err != nil {
			return nil, fmt.Errorf("--env-file: %w", err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			if !strings.Contains(line, "=") {
				return nil, fmt.Errorf("--env-file %s, line %d: %q is not NAME=VALUE", o.envFile, n, line)
			}
			set = append(set, line)
		}
	}
	return appendVariables(set, o.env.Value(), environ)
}

// appendVariables adds the values of -x; a name alone takes the caller's value, if there is one.
func appendVariables(set, variables, environ []string) ([]string, error) {
	for _, v := range variables {
		name, _, given := strings.Cut(v, "=")
		if name == "" {
			return nil, fmt.Errorf("-x %q: want NAME or NAME=VALUE", v)
		}
		if given {
			set = append(set, v)
			continue
		}
		if value := lookup(environ, name); value != "" {
			set = append(set, name+"="+value)
		}
	}
	return set, nil
}

// python is the interpreter that a module is run with.
func python(path string) string {
	for _, name := range []string{"python3", "python"} {
		for _, folder := range filepath.SplitList(path) {
			if info, err := os.Stat(filepath.Join(folder, name)); err == nil && !info.IsDir() {
				return name
			}
		}
	}
	return "python3"
}

// ranks is -np, or the product of the topology's factors, or as many as fit.
func (o *options) ranks() int {
	t := env.Topology{DP: o.dp.Value, PP: o.pp.Value, PCP: o.pcp.Value, TP: o.tp.Value}
	switch {
	case o.np.Given:
		return o.np.Value
	case o.perNode.Given:
		return o.perNode.Value
	case t != (env.Topology{}):
		return t.Ranks()
	}
	return launcher.RanksAuto
}

// lookup is a variable of an environment, or "".
func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

func stdinOf(s string) (int, error) {
	switch s {
	case "all":
		return launcher.StdinAll, nil
	case "none":
		return launcher.StdinNone, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("--stdin %s: want a rank, all or none", s)
	}
	return n, nil
}

// rankList reads ranks such as 0,2-3; empty is nil.
func rankList(s string) ([]int, error) {
	if s == "" {
		return nil, nil
	}
	var ranks []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		low, err := strconv.Atoi(first)
		high := low
		if isRange && err == nil {
			high, err = strconv.Atoi(last)
		}
		if err != nil || low < 0 || high < low || high-low > 1<<20 {
			return nil, fmt.Errorf("--show %s: want ranks such as 0,2-3", s)
		}
		for r := low; r <= high; r++ {
			ranks = append(ranks, r)
		}
	}
	return ranks, nil
}

// print shows a plan.
func (o *options) print(plan *launcher.Plan, s launcher.Streams) error {
	if o.json {
		enc := json.NewEncoder(s.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(plan)
	}
	if plan.Step != nil {
		fmt.Fprintln(s.Out, strings.Join(plan.Step, " "))
	}
	fmt.Fprintf(s.Out, "%d ranks", len(plan.Ranks))
	if nodes := o.nnodes.Value; nodes > 1 {
		fmt.Fprintf(s.Out, " on node %d of %d", o.node.Value, nodes)
	}
	if plan.Topology != (env.Topology{}) {
		fmt.Fprintf(s.Out, ", %s", plan.Topology)
	}
	fmt.Fprintln(s.Out)
	for _, w := range plan.Warnings {
		fmt.Fprintf(s.Out, "warning: %s\n", w)
	}
	for _, r := range plan.Ranks {
		fmt.Fprintf(s.Out, "rank %d: %s", r.Rank, r.Path)
		for _, arg := range r.Args[1:] {
			fmt.Fprintf(s.Out, " %s", strconv.Quote(arg))
		}
		fmt.Fprintln(s.Out)
		if r.CPUs != nil {
			fmt.Fprintln(s.Out, "    bound to CPUs", r.CPUs)
		}
		for _, entry := range r.Env {
			if strings.HasPrefix(entry, "FPM_") || strings.HasPrefix(entry, "CUDA_") {
				fmt.Fprintln(s.Out, "   ", entry)
			}
		}
	}
	return nil
}
