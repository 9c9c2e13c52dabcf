package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
)

// Exit statuses of check --gate.
const (
	exitNotReady = 10 // a document is not there yet
	exitTerminal = 20 // a document is final and wrong
)

func usage(format string, args ...any) error { return exit.AsUsage(fmt.Errorf(format, args...)) }

// version is set when the program is built.
var version = "unknown"

// run is the whole program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &output{Writer: stdout}
	app := &cli.App{
		Name:                      "fpmstat",
		Usage:                     "read, check, merge and compare forward-pass benchmark artifacts",
		Version:                   version,
		Writer:                    out,
		ErrWriter:                 stderr,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              mistake.Handler,
		Commands:                  []*cli.Command{checkCommand(), mergeCommand(), showCommand(), diffCommand(), qualifyCommand(), plotCommand(), exportCommand(), watchCommand()},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usage("unknown command %q; commands are check, merge, show, diff, qualify, plot, export and watch", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, c := range app.Commands {
		c.OnUsageError = app.OnUsageError
	}
	err := app.RunContext(ctx, args)
	var verdict exit.Status
	switch {
	case out.err == nil || errors.Is(err, out.err):
	case err == nil:
		err = out.err
	case errors.As(err, &verdict) && verdict.Err == nil: // its reasons were to be read on standard output
		err = exit.Status{Code: verdict.Code, Err: out.err}
	}
	return exit.Report(stderr, app.Name, err)
}
