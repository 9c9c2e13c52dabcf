package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
)

// Exit statuses.
const (
	exitBad      = 1  // a document breaks a rule, or something failed
	exitUsage    = 2  // the command line is wrong
	exitNotReady = 10 // check --gate: a document is not there yet
	exitTerminal = 20 // check --gate: a document is final and wrong
)

// status is an error that ends the program with a given exit status; its text, if any, has been printed or is the
// cause.
type status struct {
	code  int
	cause error
}

func (s status) Error() string {
	if s.cause == nil {
		return ""
	}
	return s.cause.Error()
}

func usage(format string, args ...any) error {
	return status{exitUsage, fmt.Errorf(format, args...)}
}

// run is the whole program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:                      "fpmstat",
		Usage:                     "read, check and merge forward-pass benchmark artifacts",
		Writer:                    stdout,
		ErrWriter:                 stderr,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return status{exitUsage, err} },
		Commands:                  []*cli.Command{checkCommand(), mergeCommand(), showCommand()},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usage("unknown command %q; commands are check, merge and show", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, c := range app.Commands {
		c.OnUsageError = app.OnUsageError
	}
	err := app.RunContext(ctx, args)
	if err == nil {
		return 0
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(stderr, "fpmstat:", text)
	}
	var s status
	if errors.As(err, &s) {
		return s.code
	}
	return exitBad
}
