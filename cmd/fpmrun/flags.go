package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
)

// options is the command line.
type options struct {
	nodeFlags
	words                                []string // of the command line
	np                                   rankCount
	tp, pp, pcp, dp                      flagvalue.Count
	gpusPerRank                          flagvalue.Count
	gpuMap                               flagvalue.Sizes
	mapBy                                mapping
	visibility, bind, rankBy             flagvalue.Choice
	shareGPU, bindings                   bool
	env                                  cli.StringSlice
	envFile, dir, outputDir, stdin, show string
	redirects                            redirects
	onFailure, onQuit, slowConsole, tls  flagvalue.Choice
	spill                                size
	restarts                             flagvalue.Count
	killSignal, events, iface            string
	tag, timestamp, tee, dryRun, json    bool
	module, pty                          bool
	timeout, grace, join, flush, status  flagvalue.Duration
}

// flags declares the command line; names that mpirun and torchrun use for the same thing are accepted. helpText explains
// them.
func (o *options) flags() []cli.Flag {
	for _, c := range []*flagvalue.Count{&o.tp, &o.pp, &o.pcp, &o.dp, &o.gpusPerRank} {
		c.Low = 1
	}
	o.onFailure = flagvalue.Choice{Value: "stop", Allowed: []string{"stop", "wait", "ignore", "kill"}} // kill is stop's other name
	o.onQuit = flagvalue.Choice{Value: "report", Allowed: []string{"report", "dump"}}
	o.visibility = flagvalue.Choice{Value: "own", Allowed: []string{"own", "all"}}
	o.bind = flagvalue.Choice{Value: "none", Allowed: []string{"none", "core", "numa", "gpu"}}
	o.rankBy = flagvalue.Choice{Value: "slot", Allowed: []string{"slot", "core", "numa", "node"}}
	o.slowConsole = flagvalue.Choice{Value: "block", Allowed: []string{"block", "drop"}}
	o.via = flagvalue.Choice{Value: "auto", Allowed: []string{"auto", "local", "srun"}}
	o.nnodes.Low, o.nnodes.High, o.masterPort.Low, o.masterPort.High = 1, 1<<16, 1, 65535
	o.tls = flagvalue.Choice{Allowed: []string{"auto", "off", "on"}}
	o.spill = 2 << 30
	o.grace, o.flush = flagvalue.Duration(defaultGrace), flagvalue.Duration(100*time.Millisecond)
	o.stdin, o.killSignal = "0", "TERM"
	return []cli.Flag{
		value(&o.np, "np", "n", "c"),
		value(&o.perNode, "nproc-per-node"),
		value(&o.dp, "dp"),
		value(&o.tp, "tp"),
		value(&o.pp, "pp"),
		value(&o.pcp, "pcp"),
		&cli.StringSliceFlag{Name: "x", Destination: &o.env},
		value(&o.gpusPerRank, "gpus-per-rank"),
		value(&o.visibility, "gpu-visibility"),
		value(&o.gpuMap, "gpu-map"),
		on(&o.shareGPU, "oversubscribe-gpu"),
		value(&o.bind, "bind-to"),
		value(&o.mapBy, "map-by"),
		value(&o.rankBy, "rank-by"),
		on(&o.bindings, "report-bindings"),
		text(&o.envFile, "env-file"),
		text(&o.dir, "wdir", "wd"),
		on(&o.module, "m", "module"),
		on(&o.tag, "tag-output", "label"),
		on(&o.timestamp, "timestamp"),
		on(&o.pty, "pty"),
		text(&o.outputDir, "output-dir", "log-dir"),
		value(&o.redirects, "redirects", "r"),
		on(&o.tee, "tee"),
		text(&o.show, "show", "local-ranks-filter"),
		text(&o.stdin, "stdin"),
		value(&o.timeout, "timeout"),
		value(&o.grace, "kill-grace"),
		text(&o.killSignal, "kill-signal"),
		value(&o.onFailure, "on-failure"),
		value(&o.onQuit, "on-quit"),
		value(&o.restarts, "restarts", "max-restarts"),
		value(&o.join, "join-timeout"),
		value(&o.via, "via"),
		value(&o.nnodes, "nnodes"),
		value(&o.node, "node-rank"),
		text(&o.rendezvous, "rendezvous", "rdzv-endpoint"),
		text(&o.masterAddr, "master-addr"),
		value(&o.masterPort, "master-port"),
		text(&o.tokenFile, "token-file"),
		text(&o.iface, "iface"),
		value(&o.tls, "tls"),
		value(&o.flush, "flush-partial"),
		value(&o.slowConsole, "on-slow-console"),
		value(&o.spill, "output-spill"),
		value(&o.status, "status-interval"),
		text(&o.events, "events"),
		on(&o.dryRun, "dry-run"),
		on(&o.json, "json"),
		on(new(bool), "allow-run-as-root"),
		on(new(bool), "oversubscribe"),
		on(new(bool), "standalone"),
		on(new(bool), "no-python"),
		value(otherHosts{}, "hostfile", "machinefile", "H", "host", "hosts"),
	}
}

// value, text and on declare a flag of one kind. torchrun's names have underscores where ours have hyphens; both are
// accepted.
func value(v cli.Generic, names ...string) cli.Flag {
	return &cli.GenericFlag{Name: names[0], Aliases: underscored(names), Value: v}
}

func text(v *string, names ...string) cli.Flag {
	return &cli.StringFlag{Name: names[0], Aliases: underscored(names), Value: *v, Destination: v}
}

func on(v *bool, names ...string) cli.Flag {
	return &cli.BoolFlag{Name: names[0], Aliases: underscored(names), Destination: v}
}

// underscored is all names but the first, and those with a hyphen once more with underscores.
func underscored(names []string) []string {
	aliases := slices.Clone(names[1:])
	for _, name := range names {
		if strings.Contains(name, "-") {
			aliases = append(aliases, strings.ReplaceAll(name, "-", "_"))
		}
	}
	return aliases
}

// otherHosts refuses the lists of hosts that other launchers log in to.
type otherHosts struct{}

// Set implements flag.Value.
func (otherHosts) Set(string) error {
	return errors.New("fpmrun does not log in to other hosts; in a Slurm allocation type --via srun, elsewhere start it on each host with --nnodes N --node-rank R")
}

// String implements flag.Value.
func (otherHosts) String() string { return "" }
