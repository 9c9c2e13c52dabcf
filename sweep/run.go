package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Programs are the paths of the programs that a sweep starts.
type Programs struct{ Run, Bench, Stat string }

// Runner runs a sweep. All fields but Retries, Budget and Signals are required.
type Runner struct {
	Cells    []Cell
	Output   string // folder of the runs' folders; made when it is missing
	Retries  int    // launches after a failed one
	Budget   time.Duration
	Programs Programs
	Environ  []string
	Signals  <-chan os.Signal // passed on to the run; the sweep then ends after it
	Log      io.Writer        // a line for each run that begins and ends
}

// logName is the file of a run's folder that has what its launches printed.
const logName = "run.log"

// ErrBusy is a folder that another sweep works in, or one whose finished runs were other ones.
var ErrBusy = errors.New("sweep: the folder cannot be used")

// Run starts the runs that are not finished, one after the other, and is what has become of all. The error is for what keeps the sweep as a
// whole from going on; a run that fails is no error.
func (r *Runner) Run(ctx context.Context) (*Report, error) {
	if err := os.MkdirAll(r.Output, 0o755); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	lock, err := lockFolder(ctx, r.Output)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	defer lock.Close()
	report, s, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.Log, "%s\n", report.estimate())
	began := time.Now()
	for i := range r.Cells {
		row := &report.Runs[i]
		if row.Status == Finished {
			continue
		}
		if left := r.Budget - time.Since(began); r.Budget > 0 && left < seconds(row.Estimate) {
			report.OutOfBudget = true
			continue
		}
		if r.interrupted(report) {
			break
		}
		if err := r.one(ctx, s, i, report, lock); err != nil {
			return report, err
		}
	}
	return report, nil
}

// Look is what Run would begin with; nothing is started or written.
func (r *Runner) Look(ctx context.Context) (*Report, error) {
	report, _, err := r.look(ctx)
	return report, err
}

// look reads the state and asks what the runs that are left would take.
func (r *Runner) look(ctx context.Context) (*Report, *state, error) {
	if err := checkEnvironment(r.Environ); err != nil {
		return nil, nil, err
	}
	s, err := loadState(r.Output)
	if err != nil {
		return nil, nil, err
	}
	report := &Report{Output: r.Output, Runs: make([]Row, len(r.Cells))}
	var errs []error
	for i := range r.Cells {
		c := &r.Cells[i]
		row := &report.Runs[i]
		*row = Row{Name: c.Name, Folder: filepath.Join(r.Output, c.Name), Ranks: c.Ranks, Command: r.command(c), Entry: Entry{Digest: c.Digest, Status: Waiting}}
		if kept := s.Runs[c.Name]; kept != nil {
			if kept.Status == Finished && kept.Digest != c.Digest && kept.whole(row.Folder) {
				errs = append(errs, fmt.Errorf("%w: %s is finished, with other flags or points; choose another output, or delete that folder", ErrBusy, row.Folder))
				continue
			}
			row.Entry = *kept
			row.Digest = c.Digest
		}
		if row.Status == Running { // by a sweep that was killed
			row.Status = Waiting
		}
		if row.Status == Finished && !row.whole(row.Folder) {
			fmt.Fprintf(r.Log, "%s: documents of the finished run are missing or changed; it goes on\n", c.Name)
			row.Status = Waiting
		}
		if row.Status == Finished {
			continue
		}
		cost, err := r.cost(ctx, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
		}
		if cost.Cannot != "" { // the nodes of a job can have more than this host
			fmt.Fprintf(r.Log, "%s: this host cannot run it: %s\n", c.Name, cost.Cannot)
		}
		row.Points, row.Most = cost.Points, bound(c, r.Environ).Seconds()
	}
	report.guess()
	return report, s, errors.Join(errs...)
}

// command is the command line of a run.
func (r *Runner) command(c *Cell) []string {
	dir := filepath.Join(r.Output, c.Name)
	words := append([]string{r.Programs.Run}, c.Launch...)
	words = append(append(words, r.Programs.Bench), c.Bench...)
	return append(words, "--resume="+dir, "--output-path="+filepath.Join(dir, "benchmark.json"))
}

// one launches a run until it is finished, its retries are used up, or a signal came.
func (r *Runner) one(ctx context.Context, s *state, i int, report *Report, lock *os.File) error {
	row := &report.Runs[i]
	s.Runs[row.Name] = &row.Entry
	for failures := 0; ; failures++ {
		row.Status, row.Why = Running, ""
		row.Launches++
		if err := errors.Join(os.MkdirAll(row.Folder, 0o755), s.save(r.Output)); err != nil {
			return err
		}
		fmt.Fprintf(r.Log, "[%d/%d] %s: %d points on %d ranks%s\n", i+1, len(report.Runs), row.Name, row.Points, row.Ranks, about(row.Estimate))
		began := time.Now()
		err := r.launch(ctx, row, report, lock)
		row.Seconds += time.Since(began).Seconds()
		if err != nil {
			return err
		}
		switch {
		case row.Exit == 0 && row.Why == "":
			row.Status, row.Most = Finished, 0
		case report.Signal != 0:
			row.Status = Stopped
		default:
			row.Status = Failed
		}
		report.guess()
		if err := s.save(r.Output); err != nil {
			return err
		}
		fmt.Fprintf(r.Log, "[%d/%d] %s\n", i+1, len(report.Runs), row.outcome())
		// A command line that is wrong stays wrong.
		if row.Status != Failed || failures == r.Retries || row.Exit == 2 || r.interrupted(report) {
			return nil
		}
	}
}

// launch is one launch of a run, and what it left behind.
func (r *Runner) launch(ctx context.Context, row *Row, report *Report, lock *os.File) error {
	log, err := os.OpenFile(filepath.Join(row.Folder, logName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	row.Exit, err = launch(row.Command, r.Environ, log, lock, r.Signals, func(s os.Signal) {
		if n, ok := s.(syscall.Signal); ok && report.Signal == 0 && ends(n) {
			report.Signal = int(n)
		}
	})
	if err != nil {
		return err
	}
	if row.Exit != 0 {
		said := make([]byte, 16<<10)
		end, err := log.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		n, err := log.ReadAt(said, max(begin, end-int64(len(said))))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		row.Why = lastLine(said[:n])
		return nil
	}
	if err := r.inspect(ctx, row); err != nil {
		row.Why = err.Error()
	}
	return nil
}

// interrupted reports whether a signal asked the sweep to end, also one that came while nothing ran.
func (r *Runner) interrupted(report *Report) bool {
	for {
		select {
		case s := <-r.Signals:
			if n, ok := s.(syscall.Signal); ok && ends(n) {
				report.Signal = int(n)
			}
		default:
			return report.Signal != 0
		}
	}
}

// ends reports whether a signal asks a program to end.
func ends(s syscall.Signal) bool {
	return slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}, s)
}

// inspect lets fpmstat judge the documents of a run that exited with 0, and keeps their names. The error is what is wrong with them.
func (r *Runner) inspect(ctx context.Context, row *Row) error {
	files, err := documents(row.Folder)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("exited with status 0 and wrote no document")
	}
	words := []string{r.Programs.Stat, "check"}
	for name := range files {
		words = append(words, filepath.Join(row.Folder, name))
	}
	slices.Sort(words[2:])
	if _, err := output(ctx, r.Environ, words...); err != nil {
		return fmt.Errorf("fpmstat check: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(row.Folder, "benchmark.json"))
	if err != nil {
		return err
	}
	var doc struct {
		RunID string `json:"run_id"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	row.Files, row.RunID = files, doc.RunID
	return nil
}

// lastLine is the last line that is not empty.
func lastLine(text []byte) string {
	text = bytes.TrimRight(text, "\r\n \t")
	return strings.TrimSpace(string(text[bytes.LastIndexByte(text, '\n')+1:]))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
