package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/launcher"
)

// agentHelp is what fpmrun agent --help prints.
const agentHelp = `Usage: fpmrun agent --head HOST:PORT[,HOST:PORT...] --nnodes N [--node-rank R]

Runs the ranks of one node for an fpmrun elsewhere, which starts it through srun.
The node's number is SLURM_NODEID unless it is given; the job's secret is read
from the first line of standard input. The exit status is 0 however the job ends.
`

// runAgent is fpmrun agent. srun kills the agents of other nodes where one fails, so that every end but a wrong command line is
// status 0: the head tells what went wrong.
func runAgent(ctx context.Context, args, environ []string, stdin *os.File, stdout, stderr io.Writer) int {
	nodes, node := flagvalue.Count{Low: 1}, flagvalue.Count{Low: 0}
	heads := ""
	flags := []cli.Flag{text(&heads, "head"), value(&nodes, "nnodes"), value(&node, "node-rank")}
	app := &cli.App{
		Name: "fpmrun agent", CustomAppHelpTemplate: agentHelp, Writer: stdout, ErrWriter: stderr, HideHelpCommand: true, HideVersion: true,
		Flags: flags, ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return exit.AsUsage(explain(err, flags)) },
		Action: func(*cli.Context) error {
			if !node.Given {
				if err := node.Set(lookup(environ, "SLURM_NODEID")); err != nil {
					return exit.AsUsage(errors.New("no --node-rank R, and SLURM_NODEID is not set"))
				}
			}
			if heads == "" || !nodes.Given {
				return exit.AsUsage(errors.New("agents are started by fpmrun; by hand type fpmrun --nnodes N --node-rank R and the program"))
			}
			addresses := strings.Split(heads, ",")
			for _, address := range addresses {
				if _, _, err := net.SplitHostPort(address); err != nil {
					return exit.AsUsage(fmt.Errorf("--head %s: want HOST:PORT, or [V6]:PORT", address))
				}
			}
			token, err := bufio.NewReader(stdin).ReadString('\n')
			if err != nil {
				return exit.AsUsage(fmt.Errorf("no secret on standard input: %w", err))
			}
			cfg := launcher.AgentConfig{Node: node.Value, Nodes: nodes.Value, Heads: addresses, Token: []byte(strings.TrimSpace(token)), Build: version, Environ: environ}
			if self, err := os.Executable(); err == nil {
				cfg.Siblings = filepath.Dir(self)
			}
			if _, err := launcher.Serve(ctx, cfg, stderr); err != nil {
				fmt.Fprintf(stderr, "fpmrun: node %d: %v\n", node.Value, err)
			}
			return nil
		},
	}
	if err := app.RunContext(ctx, args); err != nil {
		return exit.Report(stderr, app.Name, err)
	}
	return 0
}
