package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/launcher"
)

// version is set when the program is built.
var version = "unknown"

// run is the whole program.
func run(ctx context.Context, args, environ []string, stdin *os.File, stdout, stderr io.Writer) int {
	var o options
	status := 0
	app := &cli.App{
		Name:  "fpmrun",
		Usage: "start one process per rank, watch them, and leave nothing behind",
		UsageText: "fpmrun [flags] [--] PROGRAM [ARG...]\n" +
			"fpmrun [flags] PROGRAM [ARG...] : [-np N] [-x NAME=VALUE] [--wdir D] PROGRAM [ARG...]",
		Description: "Exit status: 0 when every rank exited with 0, else the first failing rank's (128 + signal when it was killed);\n" +
			"124 on --timeout; 126 or 127 when PROGRAM cannot be started; 128 + signal when fpmrun was signalled; 2 usage.",
		Version:                   version,
		Writer:                    stdout,
		ErrWriter:                 stderr,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		Flags:                     o.flags(),
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError: func(c *cli.Context, err error, _ bool) error {
			return exit.AsUsage(explain(err, c.App.Flags))
		},
		Action: func(c *cli.Context) error {
			var err error
			status, err = o.run(ctx, c.Args().Slice(), environ, launcher.Streams{In: stdin, Out: stdout, Err: stderr})
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

// explain adds the nearest flag to the message about an unknown one.
func explain(err error, flags []cli.Flag) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err
	}
	best, distance := "", 4
	for _, f := range flags {
		for _, known := range f.Names() {
			if d := editDistance(strings.TrimLeft(name, "-"), known); d < distance {
				best, distance = known, d
			}
		}
	}
	if best == "" {
		return fmt.Errorf("unknown flag %s; fpmrun --help lists them", dashed(name))
	}
	return fmt.Errorf("unknown flag %s; did you mean %s?", dashed(name), dashed(best))
}

// dashed writes a flag's name as users do.
func dashed(name string) string {
	name = strings.TrimLeft(name, "-")
	if len(name) <= 2 {
		return "-" + name
	}
	return "--" + name
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// segments splits PROGRAM ARG... : PROGRAM ARG... at lone colons; "::" stands for a literal one.
func segments(args []string) [][]string {
	list := [][]string{nil}
	for _, arg := range args {
		switch arg {
		case ":":
			list = append(list, nil)
			continue
		case "::":
			arg = ":"
		}
		list[len(list)-1] = append(list[len(list)-1], arg)
	}
	return slices.DeleteFunc(list, func(s []string) bool { return len(s) == 0 && len(list) == 1 })
}
