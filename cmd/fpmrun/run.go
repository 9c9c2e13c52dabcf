package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/launcher"
)

// version is set when the program is built.
var version = "unknown"

// run is the whole program.
func run(ctx context.Context, args, environ []string, stdin *os.File, stdout, stderr io.Writer) int {
	var o options
	status := 0
	flags := o.flags()
	var before []string // words that stand before the ones given
	if len(args) > 1 {
		switch args[1] {
		case "completion":
			script, err := completion(args[2:], flags)
			if err == nil {
				_, err = io.WriteString(stdout, script)
				return exit.Report(stderr, "fpmrun", err)
			}
			return exit.Report(stderr, "fpmrun", exit.AsUsage(err))
		case "agent":
			return runAgent(ctx, slices.Delete(slices.Clone(args), 1, 2), environ, stdin, stdout, stderr)
		case "sweep":
			return exit.Report(stderr, "fpmrun", becomeSweep(args[1:], environ))
		case "bench":
			before = []string{"fpmcoll"}
			args = slices.Delete(slices.Clone(args), 1, 2)
		}
	}
	app := &cli.App{
		Name:                      "fpmrun",
		CustomAppHelpTemplate:     helpText,
		Version:                   version,
		Writer:                    stdout,
		ErrWriter:                 stderr,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		Flags:                     flagvalue.KeepNames(flags),
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return exit.AsUsage(explain(err, flags))
		},
		Action: func(c *cli.Context) error {
			var err error
			if !c.IsSet("kill-grace") {
				o.grace = flagvalue.Duration(grace(ctx, environ))
			}
			o.words = args[1:]
			status, err = o.run(ctx, append(before, c.Args().Slice()...), environ, launcher.Streams{In: stdin, Out: stdout, Err: stderr})
			return err
		},
	}
	err := app.RunContext(ctx, args)
	var missing *launcher.NotFoundError
	if errors.As(err, &missing) {
		err = exit.Status{Code: missing.Status, Err: err}
	}
	if err != nil {
		return exit.Report(stderr, app.Name, err)
	}
	return status
}
