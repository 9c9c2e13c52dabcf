package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
)

func mergeCommand() *cli.Command {
	var o mergeOptions
	return &cli.Command{
		Name:        "merge",
		Usage:       "merge the rank documents of one run",
		ArgsUsage:   "RANK.json...",
		Description: "Flags come before the files. Nothing is written when a document breaks a rule or two disagree.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Destination: &o.output, Usage: "write the merged document to `FILE`"},
			&cli.BoolFlag{Name: "overwrite", Destination: &o.overwrite, Usage: "replace a FILE that is there"},
			&cli.GenericFlag{Name: "wait", Value: &o.wait, Usage: "wait up to `D` for files that are not there or not whole yet, such as those of other nodes"},
		},
		Action: o.merge,
	}
}

// mergeOptions are the flags of merge.
type mergeOptions struct {
	output    string
	overwrite bool
	wait      flagvalue.Duration
}

// target makes sure that the merged document destroys nothing.
func (o *mergeOptions) target(sources []string) error {
	if o.output == "" {
		return usage("merge: where to? type -o FILE before the files")
	}
	there, err := os.Stat(o.output)
	if err != nil {
		return nil //nolint:nilerr // what is not there is not overwritten
	}
	if there.IsDir() {
		return usage("merge: -o %s is a folder; want the name of a file in it", o.output)
	}
	for _, source := range sources {
		if info, err := os.Stat(source); err == nil && os.SameFile(there, info) {
			return usage("merge: -o %s is one of the files to merge; choose another name", o.output)
		}
	}
	if !o.overwrite {
		return fmt.Errorf("merge: refusing to overwrite %q; choose another name or pass --overwrite", o.output)
	}
	return nil
}

func (o *mergeOptions) merge(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage("merge: no file given")
	}
	if err := o.target(c.Args().Slice()); err != nil {
		return err
	}
	debug.SetGCPercent(20) // nearly all of the memory is the documents' text, which stays
	ctx, cancel := context.WithTimeout(c.Context, time.Duration(o.wait))
	defer cancel()
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	docs, err := readWhenThere(ctx, c.Args().Slice(), tick.C, artifact.ReadDocuments)
	if err != nil {
		return err
	}
	merged, err := artifact.Merge(docs, o.output)
	if err != nil {
		return err
	}
	for _, warning := range merged.Warnings {
		fmt.Fprintln(c.App.ErrWriter, "fpmstat: warning:", warning)
	}
	return artifact.WriteFile(o.output, merged)
}
