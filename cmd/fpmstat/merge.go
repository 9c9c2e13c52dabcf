package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
)

func mergeCommand() *cli.Command {
	return &cli.Command{
		Name:        "merge",
		Usage:       "merge the rank documents of one run",
		ArgsUsage:   "RANK.json...",
		Description: "Flags come before the files. Nothing is written when a document breaks a rule or two disagree.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Required: true, Usage: "write the merged document to `FILE`"},
			&cli.DurationFlag{Name: "wait", Usage: "wait up to `D` for files that are not there or not whole yet, such as those of other nodes"},
		},
		Action: merge,
	}
}

func merge(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage("merge: no file given")
	}
	debug.SetGCPercent(20) // nearly all of the memory is the documents' text, which stays
	wait := c.Duration("wait")
	if wait < 0 {
		return usage("merge: --wait %v: want a time of at least 0", wait)
	}
	ctx, cancel := context.WithTimeout(c.Context, wait)
	defer cancel()
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	docs, err := readWhenThere(ctx, c.Args().Slice(), tick.C, artifact.ReadDocuments)
	if err != nil {
		return err
	}
	merged, err := artifact.Merge(docs, c.String("output"))
	if err != nil {
		return err
	}
	for _, warning := range merged.Warnings {
		fmt.Fprintln(c.App.ErrWriter, "fpmstat: warning:", warning)
	}
	return artifact.WriteFile(c.String("output"), merged)
}
