package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/exit"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "validate rank, merged and worker-probe documents, and journals",
		ArgsUsage: "FILE...",
		Description: "Prints one line for each rule that a document breaks, with its JSON path. Rank documents given together are\n" +
			"those of one run, and are also checked against each other. Exit status: 0 good, 1 bad; with --gate 0 good, 10 a file is missing or not\n" +
			"whole yet, 20 a file is final and bad. Part of a run is good for a merge, and bad with --gate or --mode.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "gate", Usage: "exit with 10 while a file is not there yet and 20 when one is final and bad"},
			&cli.StringFlag{Name: "mode", Usage: "rank documents are to be complete runs of `MODE` prefill, decode or agg, as collectors demand", DefaultText: "any"},
			&cli.IntFlag{Name: "max", Value: 20, Usage: "print at most `N` lines for each file; 0 prints all"},
		},
		Action: check,
	}
}

func check(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage("check: no file given")
	}
	mode := c.String("mode")
	if mode != "" && mode != artifact.Prefill && mode != artifact.Decode && mode != "agg" {
		return usage("check: --mode %q: want prefill, decode or agg", mode)
	}
	limit := c.Int("max")
	if limit < 0 {
		return usage("check: --max %d: want 0 or more", limit)
	}
	reports := artifact.CheckFiles(c.Args().Slice())
	waiting, bad, gate := false, false, c.Bool("gate")
	for _, r := range reports {
		if c.Bool("gate") || mode != "" {
			r.Demand(mode)
		}
		waiting = waiting || r.NotReady
		bad = bad || !r.Good() && !r.NotReady
		if r.Good() {
			kind := r.Kind
			if r.Note != "" {
				kind = r.Note
			}
			if r.Diagnostic && gate {
				bad = true
				fmt.Fprintf(c.App.Writer, "%s: %v\n", r.Path, artifact.ErrDiagnostic)
				continue
			}
			fmt.Fprintf(c.App.Writer, "%s: ok (%s)\n", r.Path, kind)
			continue
		}
		for i, v := range r.Violations {
			if limit > 0 && i == limit {
				fmt.Fprintf(c.App.Writer, "%s: and %d more\n", r.Path, len(r.Violations)-i)
				break
			}
			fmt.Fprintf(c.App.Writer, "%s: %s\n", r.Path, v)
		}
	}
	switch {
	case bad && gate:
		return exit.Status{Code: exitTerminal}
	case waiting && gate:
		return exit.Status{Code: exitNotReady}
	case bad || waiting:
		return exit.Status{Code: exit.Failed}
	}
	return nil
}
