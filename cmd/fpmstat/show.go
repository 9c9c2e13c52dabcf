package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
)

func showCommand() *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "print the measured points of rank or merged documents, of journals, or over the launches of a repeat.json",
		ArgsUsage: "FILE...",
		Description: "FILE may be the folder of a run. Flags come before it. Which batch size decodes most tokens per second at 4k context?\n" +
			"   fpmstat show --type decode --context 4096 --best 1 fpm-results/RUN",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print a JSON list, of one FILE"},
			&cli.BoolFlag{Name: "csv", Usage: "print comma-separated values, of one FILE"},
		}, filterFlags()...),
		Action: show,
	}
}

func show(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage("show: no file given")
	}
	if c.Bool("json") && c.Bool("csv") {
		return usage("show: --json and --csv exclude each other")
	}
	chosen, err := newFilter(c)
	if err != nil {
		return err
	}
	paths, err := shownPaths(c.Args().Slice())
	if err != nil {
		return err
	}
	if machine := c.Bool("json") || c.Bool("csv"); machine && len(paths) > 1 {
		return usage("show: %d files with --json or --csv: want one, as points do not say which file they are of; fpmstat export takes several", len(paths))
	}
	for _, path := range paths {
		if chosen.on() && filepath.Base(path) == repeatName {
			return usage("show: %s: --type, --context and --best are for the points of one launch; name one of its folders", path)
		}
		if shown, err := showRepeat(c, path); shown || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		title, rows, causes, err := measured(path)
		if err != nil {
			return err
		}
		if chosen.on() {
			causes = nil // they are of all points
			if rows, err = chosen.apply(rows, path, c.App.ErrWriter); err != nil {
				return err
			}
		}
		switch w := c.App.Writer; {
		case c.Bool("json"):
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			err = enc.Encode(rows)
		case c.Bool("csv"):
			err = writeCSV(w, rows)
		default:
			fmt.Fprintln(w, title)
			err = artifact.WriteTable(w, rows)
			for i, line := range causes {
				if i == mostCauses {
					fmt.Fprintf(w, "evidence: and %d more\n", len(causes)-i)
					break
				}
				fmt.Fprintln(w, "evidence:", line)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeatName is the one name that documents about several launches are written under.
const repeatName = "repeat.json"

// shownPaths puts the document of a run in the place of its folder.
func shownPaths(args []string) ([]string, error) {
	var paths []string
	for _, path := range args {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if repeat := filepath.Join(path, repeatName); fileThere(repeat) {
				paths = append(paths, repeat)
				continue
			}
			found, err := artifact.LaunchPaths(path)
			if err != nil {
				return nil, err
			}
			paths = append(paths, found...)
			continue
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// showRepeat prints a document about several launches; false when the file is none.
func showRepeat(c *cli.Context, path string) (bool, error) {
	if filepath.Base(path) != repeatName { // documents may be large
		return false, nil
	}
	r, err := artifact.ReadRepeat(path)
	if err != nil {
		return true, err
	}
	switch w := c.App.Writer; {
	case c.Bool("csv"):
		return true, usage("show: %s: --csv is for the points of one launch; use --json", path)
	case c.Bool("json"):
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return true, enc.Encode(r.Points)
	default:
		fmt.Fprintln(w, r.Title())
		return true, r.WriteTable(w)
	}
}

// mostCauses is how many lines are printed below a table.
const mostCauses = 20

// measured is what a document or journal is of, its points, and what stands out in the evidence around them.
func measured(path string) (title string, rows []artifact.Summary, causes []string, err error) {
	if artifact.IsJournal(path) {
		j, err := artifact.ReadJournal(path)
		if err != nil {
			return "", nil, nil, err
		}
		return j.Title(), j.Summary(), j.Causes(), nil
	}
	o, err := artifact.ReadOverview(path)
	if err != nil {
		return "", nil, nil, err
	}
	return o.Title, o.Points, o.Causes, nil
}

func writeCSV(w io.Writer, rows []artifact.Summary) error {
	out := csv.NewWriter(w)
	float := func(f artifact.Float) string { return strconv.FormatFloat(float64(f), 'g', -1, 64) }
	records := [][]string{{"benchmark_id", "point_type", "batch_size", "new_tokens", "kv_tokens", "runtime_mode", "wall_time", "fastest_rank_wall_time", "raw_samples", "method", "tokens_per_second"}}
	for _, r := range rows {
		records = append(records, []string{strconv.Itoa(r.BenchmarkID), r.PointType, strconv.Itoa(r.BatchSize), strconv.Itoa(r.NewTokens), strconv.Itoa(r.KVTokens),
			r.Mode, float(r.WallTime), float(r.Fastest), strconv.Itoa(r.Samples), r.Method, float(r.TokensPerSec)})
	}
	return out.WriteAll(records)
}
