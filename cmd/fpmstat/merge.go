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

// target is where the merged document goes; it destroys nothing.
func (o *mergeOptions) target(sources []string) (string, error) {
	if o.output == "" {
		return "", usage("merge: where to? type -o FILE before the files")
	}
	path, err := target("merge", o.output, sources)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil && !o.overwrite {
		return "", fmt.Errorf("merge: refusing to overwrite %q; choose another name or pass --overwrite", o.output)
	}
	return path, nil
}

func (o *mergeOptions) merge(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage("merge: no file given")
	}
	path, err := o.target(c.Args().Slice())
	if err != nil {
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
	return artifact.WriteFile(path, merged)
}
