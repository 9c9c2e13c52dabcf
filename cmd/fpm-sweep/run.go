package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
	"github.com/fpmrun/fpmrun/cmd/internal/sibling"
	"github.com/fpmrun/fpmrun/sweep"
)

// helpText is what --help prints.
const helpText = `Usage: fpmrun sweep [flags] FILE.yaml

Runs fpmbench once for each cell of a matrix over its flags, in a folder of its
own each, and goes on where it was when it is started again. docs/sweep.md says
what FILE.yaml holds; a small one:

  output: results
  fpmbench: {points-file: points.json}
  matrix:
    model: [tiny, tiny-moe]
    mode: [prefill, decode]
    np: [1, 2]

  --dry-run              print the command of each run that is left, and the cost
  --json                 print the result, or the plan, as JSON
  --output DIR           instead of the file's
  --retries N            launches of a run after a failed one, instead of the file's
  --budget D             begin no run after D, instead of the file's

Exit status: 0 every run is finished; 1 one has failed; 2 wrong command line or
file; 3 the budget ended before the last run; 128 + signal when it was stopped.
`

// document is what --json prints.
type document struct {
	*sweep.Report
	Exit int `json:"exit_status"`
}

// run is the whole program.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	output, asJSON, dry := "", false, false
	retries, budget := flagvalue.Count{}, flagvalue.Duration(0)
	flags := []cli.Flag{
		&cli.StringFlag{Name: "output", Destination: &output},
		&cli.BoolFlag{Name: "json", Destination: &asJSON},
		&cli.BoolFlag{Name: "dry-run", Destination: &dry},
		&cli.GenericFlag{Name: "retries", Value: &retries},
		&cli.GenericFlag{Name: "budget", Value: &budget},
	}
	status := 0
	app := &cli.App{
		Name: "fpmrun sweep", CustomAppHelpTemplate: helpText, Writer: stdout, ErrWriter: stderr, HideHelpCommand: true, HideVersion: true,
		Flags: flagvalue.KeepNames(flags), ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError: mistake.Handler,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return exit.AsUsage(fmt.Errorf("%d files given; type fpmrun sweep FILE.yaml, flags before the file", c.NArg()))
			}
			r, err := runner(c.Args().First(), output, environ, stderr)
			if err != nil {
				return exit.AsUsage(err)
			}
			if retries.Given {
				r.Retries = retries.Value
			}
			if budget > 0 {
				r.Budget = time.Duration(budget)
			}
			var report *sweep.Report
			if dry {
				if report, err = r.Look(ctx); err != nil {
					return exit.AsUsage(err)
				}
			} else {
				signals := make(chan os.Signal, 16)
				signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT)
				defer signal.Stop(signals)
				r.Signals = signals
				if report, err = r.Run(ctx); report == nil {
					return exit.AsUsage(err)
				}
				status = report.Exit()
			}
			return errors.Join(err, show(stdout, report, dry, asJSON))
		},
	}
	if err := app.RunContext(ctx, args); err != nil {
		return exit.Report(stderr, app.Name, err)
	}
	return status
}

// runner prepares the sweep of a file.
func runner(path, output string, environ []string, log io.Writer) (*sweep.Runner, error) {
	f, err := sweep.Read(path)
	if err != nil {
		return nil, err
	}
	cells, err := f.Cells()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := &sweep.Runner{Cells: cells, Output: f.Output, Retries: f.Retries, Environ: environ, Log: log}
	if output != "" {
		r.Output = output
	}
	if r.Budget, err = f.Limit(); err != nil {
		return nil, err
	}
	for name, path := range map[string]*string{"fpmrun": &r.Programs.Run, "fpmbench": &r.Programs.Bench, "fpmstat": &r.Programs.Stat} {
		if *path, err = sibling.Path(name); err != nil {
			return nil, fmt.Errorf("%s is neither beside fpm-sweep nor in PATH; build it with make", name)
		}
	}
	return r, nil
}

// show writes the result, or the plan.
func show(w io.Writer, report *sweep.Report, plan, asJSON bool) error {
	switch {
	case asJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		d := document{Report: report}
		if !plan {
			d.Exit = report.Exit()
		}
		return encoder.Encode(d)
	case plan:
		return report.Plan(w)
	}
	return report.Table(w)
}
