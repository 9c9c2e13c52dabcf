package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/rank/bench"
)

// version is set when the program is built.
var version = "unknown"

// exitPartial is the status of a run that was stopped early; what it measured is valid.
const exitPartial = 3

// program is what a run needs of the world outside.
type program struct {
	args, environ  []string
	stdout, stderr io.Writer
	log            *slog.Logger
}

// getenv looks a variable up.
func (p *program) getenv(name string) string {
	value, _ := p.lookup(name)
	return value
}

func (p *program) lookup(name string) (string, bool) {
	for i := len(p.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.environ[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// run is the whole program.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	p := &program{args: args, environ: environ, stdout: stdout, stderr: stderr}
	p.log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: withoutTime}))
	o := newOptions()
	flags := o.flags()
	if !slices.Contains(args, "--help") && !slices.Contains(args, "-h") { // the library's help asks flags for more than their names
		flags = flagvalue.KeepNames(flags)
	}
	app := &cli.App{
		Name:  "fpmbench",
		Usage: "measure a transformer's forward pass over a grid of batch sizes, new tokens and cached tokens",
		UsageText: "fpmbench [flags]                   one rank\n" +
			"fpmrun -np N fpmbench [flags]      N data-parallel ranks; --tp N shards each over N ranks",
		Description: "Writes one document for each data-parallel rank, the merged document and the worker-probe sidecar.\n" +
			"Exit status: 0 complete, 1 failed, 2 wrong command line, 3 stopped early with usable results.",
		Version:                   version,
		Writer:                    stdout,
		ErrWriter:                 stderr,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		Flags:                     flags,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              mistake.Handler,
		Commands:                  []*cli.Command{p.tokenize(os.Stdin)},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.AsUsage(fmt.Errorf("unexpected argument %q: fpmbench takes flags only", c.Args().First()))
			}
			if err := o.applyContract(p.getenv, c.IsSet); err != nil {
				return exit.AsUsage(err)
			}
			return p.bench(ctx, o)
		},
	}
	err := app.RunContext(ctx, args)
	if errors.Is(err, gpu.ErrConfig) || errors.Is(err, bench.ErrResume) {
		err = exit.AsUsage(err)
	}
	return exit.Report(stderr, app.Name, err)
}

// withoutTime keeps log lines short: the launcher stamps them where that is wanted.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
