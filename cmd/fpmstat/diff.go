package main

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
)

func diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare two measurements: what differs in their evidence, and which points moved",
		ArgsUsage: "OLD NEW",
		Description: "OLD and NEW are rank or merged documents, folders of a run, or repeat.json documents, which stand for all of their launches;\n" +
			"several on one side are separated by commas. Flags come before them. The first five lines say whether inputs, dispatch,\n" +
			"preparation, engine and clocks are identical, differ, or are unknown. Points are paired by point_key and rank. From three\n" +
			"launches on each side on, a point that moved is told from noise; with fewer, one of which there are five raw samples on each side\n" +
			"only stands out; the ratio that this takes is printed. Exit status: 0, 1 with --fail-over, 2 for a wrong command line.",
		Flags: []cli.Flag{
			&cli.GenericFlag{Name: "fail-over", Value: new(flagvalue.Percent), Usage: "exit with 1 when a named point, or all points together, became slower by more than `PERCENT`", DefaultText: "never"},
			&cli.BoolFlag{Name: "all", Usage: "list every point, not only those that moved"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
		},
		Action: diff,
	}
}

func diff(c *cli.Context) error {
	if c.NArg() != 2 {
		return usage("diff: %d arguments given, want OLD and NEW (flags come before them; several runs of one side are separated by commas)", c.NArg())
	}
	old, err := observe(c.Args().Get(0))
	if err != nil {
		return err
	}
	fresh, err := observe(c.Args().Get(1))
	if err != nil {
		return err
	}
	d, err := artifact.NewDiff(old, fresh)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", "  ")
		err = enc.Encode(d)
	} else {
		err = d.WriteText(c.App.Writer, c.Bool("all"))
	}
	if err != nil {
		return err
	}
	limit := c.Generic("fail-over").(*flagvalue.Percent)
	if !limit.Given {
		return nil
	}
	slower, all := d.FailsOver(limit.Value)
	switch {
	case len(slower) > 0:
		return exit.Status{Code: exit.Failed, Err: fmt.Errorf("diff: --fail-over %v: point %d (%s batch %d kv %d) on rank %d is %.3f times as slow, and %d more", limit,
			slower[0].BenchmarkID, slower[0].PointType, slower[0].BatchSize, slower[0].KVTokens, slower[0].DPRank, slower[0].Ratio, len(slower)-1)}
	case all:
		return exit.Status{Code: exit.Failed, Err: fmt.Errorf("diff: --fail-over %v: all points together are %.3f times as slow", limit, d.Shift.Ratio)}
	}
	return nil
}

// observe reads the launches that an argument names, one after the other: only one document is in memory at a time.
func observe(text string) ([]*artifact.Observed, error) {
	paths, err := artifact.LaunchPaths(text)
	if err != nil {
		return nil, err
	}
	launches := make([]*artifact.Observed, len(paths))
	for i, path := range paths {
		if launches[i], err = artifact.Observe(path); err != nil {
			return nil, err
		}
	}
	return launches, nil
}
