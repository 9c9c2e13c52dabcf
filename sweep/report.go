package sweep

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what has become of a sweep.
type Report struct {
	Output      string `json:"output"`
	Runs        []Row  `json:"runs"`
	OutOfBudget bool   `json:"out_of_budget"` // runs were not begun because the budget was used up
	Signal      int    `json:"signal"`        // that ended the sweep; 0: none
}

// Row is one run in a report.
type Row struct {
	Name    string   `json:"name"`
	Folder  string   `json:"folder"`
	Ranks   int      `json:"ranks"`
	Command []string `json:"command"`
	Entry
	Estimate float64 `json:"estimate_seconds,omitempty"` // of the next launch; 0: not known
	Most     float64 `json:"most_seconds,omitempty"`     // that it measures; 0 when it is finished
}

// guess estimates the runs that are left from those that are finished.
func (r *Report) guess() {
	var runs []*Entry
	for i := range r.Runs {
		runs = append(runs, &r.Runs[i].Entry)
	}
	for i := range r.Runs {
		row := &r.Runs[i]
		row.Estimate = 0
		if row.Status != Finished {
			row.Estimate, _ = pace(runs, row.Points)
		}
	}
}

// estimate says what the runs that are left will take.
func (r *Report) estimate() string {
	left, points, rankSeconds, all, most, known := 0, 0, 0.0, 0.0, 0.0, true
	for i := range r.Runs {
		row := &r.Runs[i]
		if row.Status == Finished {
			continue
		}
		left, points = left+1, points+row.Points
		all, rankSeconds = all+row.Estimate, rankSeconds+row.Estimate*float64(row.Ranks)
		most += row.Most
		known = known && row.Estimate > 0
	}
	text := fmt.Sprintf("%d of %d runs to do, %d points", left, len(r.Runs), points)
	switch {
	case left == 0:
		return fmt.Sprintf("all %d runs are finished", len(r.Runs))
	case known:
		return text + fmt.Sprintf(", about %s, %.3g rank-hours, at the pace of the finished runs", round(all), rankSeconds/3600)
	}
	return text + ", at most " + round(most) + " by fpmbench's --timeout; how long it takes is known once one is finished"
}

// about is a row's estimate in words.
func about(estimate float64) string {
	if estimate == 0 {
		return ""
	}
	return ", about " + round(estimate)
}

func round(s float64) string {
	d := seconds(s)
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// outcome is how a run ended, in words.
func (row *Row) outcome() string {
	switch row.Status {
	case Finished:
		return fmt.Sprintf("%s: finished in %s", row.Name, round(row.Seconds))
	case Waiting:
		return row.Name + ": waiting"
	}
	why := row.Why
	if why == "" {
		why = "said nothing"
	}
	return fmt.Sprintf("%s: %s with status %d: %s; see %s", row.Name, row.Status, row.Exit, why, filepath.Join(row.Folder, logName))
}

// Count is the number of runs of a status.
func (r *Report) Count(status Status) int {
	n := 0
	for i := range r.Runs {
		if r.Runs[i].Status == status {
			n++
		}
	}
	return n
}

// Exit statuses of a sweep.
const (
	ExitComplete   = 0 // every run is finished
	ExitFailed     = 1 // one has failed
	ExitIncomplete = 3 // none has failed, and the budget ended before the last
)

// Exit is the sweep's exit status: 128 + signal when one ended it.
func (r *Report) Exit() int {
	switch {
	case r.Count(Finished) == len(r.Runs):
		return ExitComplete
	case r.Signal != 0:
		return 128 + r.Signal
	case r.Count(Failed) > 0:
		return ExitFailed
	}
	return ExitIncomplete
}

// Table writes one line for each run.
func (r *Report) Table(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "run\tstatus\tranks\tpoints\tlaunches\ttime\tnote")
	for i := range r.Runs {
		row := &r.Runs[i]
		took, note := "", row.Why
		if row.Seconds > 0 {
			took = round(row.Seconds)
		}
		if row.Status == Failed {
			note = fmt.Sprintf("status %d: %s", row.Exit, note)
		}
		fmt.Fprintln(table, strings.TrimRight(fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%s\t%s", row.Name, row.Status, row.Ranks, row.Points, row.Launches, took, note), "\t"))
	}
	return table.Flush()
}

// Plan writes the command line of each run that is left, for a shell, and what they take.
func (r *Report) Plan(w io.Writer) error {
	for i := range r.Runs {
		row := &r.Runs[i]
		if row.Status == Finished {
			if _, err := fmt.Fprintf(w, "# %s is finished\n", row.Name); err != nil {
				return err
			}
			continue
		}
		words := make([]string, len(row.Command))
		for j, word := range row.Command {
			words[j] = quoted(word)
		}
		if _, err := fmt.Fprintln(w, strings.Join(words, " ")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, "# "+r.estimate())
	return err
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("-_=+./,:@%", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
