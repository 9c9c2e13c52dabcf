package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank"
)

// version is set when the program is built.
var version = "unknown"

// options are the command line.
type options struct {
	cells   []cell
	limit   time.Duration
	suggest bool
	step    time.Duration // 0 = the table of operations
	tabs    bool
}

// run is the whole program.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	var o options
	app := &cli.App{
		Name:            "fpmcoll",
		Usage:           "time collective operations between the ranks it is started as",
		UsageText:       "fpmrun -np N fpmcoll [flags] [OPERATION:BYTES...]",
		Version:         version,
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "limit", Usage: "how long one row may take", Value: 300 * time.Millisecond, Destination: &o.limit},
			&cli.BoolFlag{Name: "suggest", Usage: "time the two algorithms on both sides of each threshold as well, and suggest thresholds", Destination: &o.suggest},
			&cli.DurationFlag{Name: "step", Usage: "instead of operations: what heartbeats cost a step of this length followed by a barrier, as in 5ms", Destination: &o.step},
			&cli.BoolFlag{Name: "tabs", Usage: "one line a row, without a heading: operation, bytes, ranks, repetitions, median, 10th and 90th percentile, algorithm", Destination: &o.tabs},
		},
		Writer:         stdout,
		ErrWriter:      stderr,
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   mistake.Handler,
		Action: func(c *cli.Context) error {
			names := c.Args().Slice()
			if len(names) == 0 {
				names = defaultCells
			}
			for _, name := range names {
				one, err := parseCell(name)
				if err != nil {
					return exit.AsUsage(err)
				}
				o.cells = append(o.cells, one)
			}
			if o.limit <= 0 {
				return exit.AsUsage(fmt.Errorf("--limit %v: want more than 0, as in --limit 300ms", o.limit))
			}
			if o.step < 0 || o.step > stretch {
				return exit.AsUsage(fmt.Errorf("--step %v: want up to %v, as in --step 5ms", o.step, stretch))
			}
			return o.run(ctx, getenv, stdout)
		},
	}
	return exit.Report(stderr, app.Name, app.RunContext(ctx, args))
}

// run joins the world, times the rows and prints them on rank 0.
func (o *options) run(ctx context.Context, getenv func(string) string, stdout io.Writer) error {
	id, err := rank.Identify(getenv)
	if err != nil {
		return err
	}
	if id.Rank > 0 {
		stdout = io.Discard
	}
	join := func(t collective.Thresholds) (*collective.Comm, error) {
		comm, _, err := rank.Join(ctx, id, rank.Options{Getenv: getenv, Logger: slog.Default(), Thresholds: t})
		return comm, err
	}
	comm, err := join(collective.Thresholds{})
	if err != nil {
		return err
	}
	if o.step > 0 {
		var s steps
		s, err = timeSteps(ctx, comm, o.step)
		//nolint:contextcheck // leaving is bounded by the linger
		if err = errors.Join(err, comm.Close()); err == nil {
			fmt.Fprint(stdout, s)
		}
		return err
	}
	err = o.table(ctx, comm, stdout)
	//nolint:contextcheck // leaving is bounded by the linger
	if err = errors.Join(err, comm.Close()); err != nil || !o.suggest {
		return err
	}
	for _, r := range rivals {
		s, err := suggest(ctx, join, r, o.limit)
		if err != nil {
			return err
		}
		fmt.Fprint(stdout, "\n", s)
	}
	return nil
}

func (o *options) table(ctx context.Context, comm *collective.Comm, stdout io.Writer) error {
	format := "%s\t%d\t%d\t%d\t%.2f\t%.2f\t%.2f\t%s\n"
	if !o.tabs {
		fmt.Fprintf(stdout, "%-10s %9s %6s %8s %12s %12s %12s  %s\n", "operation", "bytes", "ranks", "n", "median us", "p10 us", "p90 us", "algorithm")
		format = "%-10s %9d %6d %8d %12.1f %12.1f %12.1f  %s\n"
	}
	b := &bench{comm: comm}
	for _, c := range o.cells {
		t, err := b.measure(ctx, c, o.limit)
		if err != nil {
			return err
		}
		choice := collective.Thresholds{}.Choice(c.Op, comm.Size(), c.Bytes)
		fmt.Fprintf(stdout, format, c.Op, c.Bytes, comm.Size(), t.N, t.Median, t.P10, t.P90, choice)
	}
	return nil
}
