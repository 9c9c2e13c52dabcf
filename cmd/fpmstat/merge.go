package main

import (
	"fmt"

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
		},
		Action: merge,
	}
}

func merge(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage("merge: no file given")
	}
	docs := make([]*artifact.Document, c.NArg())
	for i, path := range c.Args().Slice() {
		doc, err := artifact.ReadDocument(path)
		if err != nil {
			return err
		}
		docs[i] = doc
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
