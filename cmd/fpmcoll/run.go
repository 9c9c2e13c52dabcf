package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/rank"
)

// version is set when the program is built.
var version = "unknown"

// run is the whole program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var limit time.Duration
	app := &cli.App{
		Name:            "fpmcoll",
		Usage:           "time collective operations between the ranks it is started as",
		ArgsUsage:       "[OPERATION:BYTES...]",
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "limit", Usage: "time that each row may take", Value: 300 * time.Millisecond, Destination: &limit},
		},
		Version:        version,
		Writer:         stdout,
		ErrWriter:      stderr,
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return exit.AsUsage(err) },
		Action: func(c *cli.Context) error {
			names := c.Args().Slice()
			if len(names) == 0 {
				names = defaultCells
			}
			var cells []cell
			for _, name := range names {
				one, err := parseCell(name)
				if err != nil {
					return exit.AsUsage(err)
				}
				cells = append(cells, one)
			}
			return measureAll(ctx, cells, limit, stdout)
		},
	}
	return exit.Report(stderr, app.Name, app.RunContext(ctx, args))
}

// measureAll joins the world and prints one line a cell on rank 0: operation, bytes, ranks, repetitions, and the median, 10th and 90th
// percentile in microseconds, separated by tabs.
func measureAll(ctx context.Context, cells []cell, limit time.Duration, stdout io.Writer) error {
	id, err := rank.Identify(os.Getenv)
	if err != nil {
		return err
	}
	comm, _, err := rank.Join(ctx, id, rank.Options{Getenv: os.Getenv, Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer comm.Close()
	b := &bench{comm: comm}
	for _, c := range cells {
		t, err := b.measure(ctx, c, limit)
		if err != nil {
			return err
		}
		if comm.Rank() == 0 {
			fmt.Fprintf(stdout, "%s\t%d\t%d\t%d\t%.2f\t%.2f\t%.2f\n", c.Op, c.Bytes, comm.Size(), t.N, t.Median, t.P10, t.P90)
		}
	}
	return comm.Close()
}
