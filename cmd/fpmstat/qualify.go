package main

import (
	"encoding/json"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
)

func qualifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "qualify",
		Usage:     "judge how repeatable launches of one measurement are",
		ArgsUsage: "RUN...",
		Description: "RUN is a rank or merged document, the folder of a run, or a repeat.json document, which stands for all of its launches. The first\n" +
			"line is the verdict: comparable, unestablished or mismatch, with its reasons; no time is ever one. Then: the share of points\n" +
			"whose coefficient of variation over the launches is above the limit, full grids against subsets, and every outlier with the\n" +
			"evidence that explains it. Exit status: 0, 1 for a mismatch, 2 for a wrong command line.",
		Flags: []cli.Flag{
			&cli.GenericFlag{Name: "limit", Value: new(flagvalue.Percent), DefaultText: "5%", Usage: "a point that varies by more than `PERCENT` is not repeatable"},
			&cli.IntFlag{Name: "max", Value: 20, Usage: "list at most `N` outliers and points; 0 lists all"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
		},
		Action: qualify,
	}
}

func qualify(c *cli.Context) error {
	if n := c.Int("max"); n < 0 {
		return usage("qualify: --max %d: want 0 or more", n)
	}
	var launches []*artifact.Observed
	for _, run := range c.Args().Slice() {
		more, err := observe(run)
		if err != nil {
			return err
		}
		launches = append(launches, more...)
	}
	if len(launches) < 2 {
		return usage("qualify: %d launches given, want 2 or more, or a repeat.json", len(launches))
	}
	limit := 0.05
	if p := c.Generic("limit").(*flagvalue.Percent); p.Given {
		limit = p.Value
	}
	q, err := artifact.Qualify(launches, limit)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", "  ")
		err = enc.Encode(q)
	} else {
		err = q.WriteText(c.App.Writer, c.Int("max"))
	}
	if err == nil && q.Comparability == artifact.Mismatch {
		return exit.Status{Code: exit.Failed}
	}
	return err
}
