package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/fpmstat/picture"
)

func plotCommand() *cli.Command {
	return &cli.Command{
		Name:      "plot",
		Usage:     "draw latency, heat maps, measured time over a floor and the spread of the ranks",
		ArgsUsage: "RUN",
		Description: "RUN is a rank or merged document, the folder of a run, or a repeat.json document, whose launches are drawn together. Flags come before it.\n" +
			"The HTML file is one page with every figure and a table; it loads nothing. SVG and HTML follow a dark screen; print is light.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, whose name ends in .html, .svg or .png and which appears when it is whole", DefaultText: "RUN's name with .html, here"},
			&cli.StringFlag{Name: "floor", Usage: "draw measured time over that of `RUN`, such as a run of --engine sim with the same points", DefaultText: "the floors that fpmbench --roofline recorded"},
		},
		Action: drawPlot,
	}
}

func drawPlot(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage("plot: %d runs given, want one (flags come before it; launches of one measurement are separated by commas)", c.NArg())
	}
	run := c.Args().First()
	output := c.String("output")
	if output == "" {
		name, err := filepath.Abs(run) // "." has a name too
		if err != nil {
			return err
		}
		output = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".zst"), ".json") + ".html"
	}
	var write func(*picture.Report, io.Writer) error
	switch ext := strings.ToLower(filepath.Ext(output)); ext {
	case ".html":
		write = (*picture.Report).WriteHTML
	case ".svg":
		write = (*picture.Report).WriteSVG
	case ".png":
		write = (*picture.Report).WritePNG
	default:
		return usage("plot: --output %q: want a name that ends in .html, .svg or .png", output)
	}
	path, err := target("plot", output, []string{run, c.String("floor")})
	if err != nil {
		return err
	}
	launches, err := observe(run)
	if err != nil {
		return err
	}
	var floor []*artifact.Observed
	if text := c.String("floor"); text != "" {
		if floor, err = observe(text); err != nil {
			return fmt.Errorf("plot: --floor: %w", err)
		}
	}
	report, err := picture.New(launches, floor)
	if err != nil {
		return err
	}
	if err := writeWhole(path, nil, func(w io.Writer) error { return write(report, w) }); err != nil {
		return err
	}
	for _, f := range report.Figures {
		if f.Lines > 0 {
			fmt.Fprintf(c.App.Writer, "%s (%d lines)\n", f.Title, f.Lines)
		} else {
			fmt.Fprintln(c.App.Writer, f.Title)
		}
	}
	for _, left := range report.Left {
		fmt.Fprintln(c.App.Writer, "left out:", left)
	}
	fmt.Fprintln(c.App.Writer, "wrote", output)
	return nil
}
