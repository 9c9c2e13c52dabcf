package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
)

// ErrResume is an earlier run that this one cannot go on with.
var ErrResume = errors.New("bench: cannot resume")

// kept is what a rank's journal holds, as the ranks compare it.
type kept struct {
	Wrong     string // why this rank cannot go on
	Missing   string // path of the journal, when there is none
	Processes int    // the number of the last process
	Points    []keptPoint
}

type keptPoint struct {
	ID    int
	RunID string // of the launch that measured it
}

// resumeJournal goes on with the journals of earlier processes: it takes over the points that every rank has, and begins this process's part. All
// ranks call it, and all get an error when one cannot.
func (s *Session) resumeJournal(ctx context.Context) error {
	process, err := s.newProcess()
	if err != nil {
		return err
	}
	path := artifact.JournalPath(s.cfg.OutputPath, s.id.dpRank)
	j, err := artifact.ReadJournal(path)
	if err == nil {
		err = fits(j, process)
	}
	own := kept{}
	if err != nil {
		own.Wrong, j = err.Error(), &artifact.Journal{Path: path}
	}
	for i, p := range j.Points {
		own.Points = append(own.Points, keptPoint{p.Group.BenchmarkID, j.Processes[j.By[i]].Launch.RunID})
	}
	if n := len(j.Processes); n > 0 {
		own.Processes = j.Processes[n-1].Process
	} else {
		own.Missing = path
	}
	all, err := collective.AllGather(ctx, s.leaders, own)
	if err != nil {
		return fmt.Errorf("bench: agree on what was measured: %w", err)
	}
	if process.Keep, process.Process, err = agreeKept(all); err != nil {
		return s.refused(ctx, err)
	}
	return s.takeOver(j, process)
}

// fits checks a journal against the process that is to go on with it.
func fits(j *artifact.Journal, process *artifact.JournalProcess) error {
	for i := range j.Processes {
		if err := j.Processes[i].Compare(process); err != nil {
			return fmt.Errorf("journal %q: %w", j.Path, err)
		}
	}
	return nil
}

// agreeKept is the number of points that every rank has, and the number of the process that goes on.
func agreeKept(all []kept) (points, process int, err error) {
	var errs []error
	points = len(all[0].Points)
	most := 0
	for _, k := range all {
		most = max(most, len(k.Points))
	}
	for rank, k := range all {
		// No point is measured before every rank has a journal, so one that is not there was lost, and everything would be measured again.
		if k.Missing != "" && k.Wrong == "" && most > 0 {
			errs = append(errs, fmt.Errorf("rank %d: there is no journal %q, and other ranks have %d points; put it back, or start anew with --overwrite", rank, k.Missing, most))
		}
		if k.Wrong != "" {
			errs = append(errs, fmt.Errorf("rank %d: %s", rank, k.Wrong))
		}
		points, process = min(points, len(k.Points)), max(process, k.Processes)
	}
	if err := errors.Join(errs...); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrResume, err)
	}
	for i := range points {
		for rank, k := range all {
			if a, b := all[0].Points[i], k.Points[i]; a != b {
				return 0, 0, fmt.Errorf("%w: the journals are not of one run: measurement %d is point %d of launch %s on rank 0, point %d of launch %s on rank %d",
					ErrResume, i, a.ID, a.RunID, b.ID, b.RunID, rank)
			}
		}
	}
	return points, process + 1, nil
}

// takeOver makes the first process.Keep points of the journal those of s.
func (s *Session) takeOver(j *artifact.Journal, process *artifact.JournalProcess) (err error) {
	if j.Torn > 0 {
		s.cfg.Logger.Warn("the journal ends inside a record, which is dropped", "path", j.Path, "bytes", j.Torn)
	}
	dropped := len(j.Points) - process.Keep
	if dropped > 0 {
		s.cfg.Logger.Warn("points that another rank does not have are measured again", "count", dropped)
	}
	if s.journal.writer, err = artifact.ExtendJournal(j, *process); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	s.journal.synced = time.Now()
	j.Points, j.By = j.Points[:process.Keep], j.By[:process.Keep]
	for i := range j.Points {
		p := &j.Points[i]
		s.doc.Ledger.Records = append(s.doc.Ledger.Records, p.Ledger...)
		s.doc.KVWarm.Stages = append(s.doc.KVWarm.Stages, p.Stages...)
		s.warm.count(s.doc.KVWarm, p.KVSeedRegime)
		s.doc.Groups = append(s.doc.Groups, p.Group)
		s.doc.Results = append(s.doc.Results, artifact.Result{Point: p.Group.Point, KVSeedRegime: p.KVSeedRegime, FPMs: p.Group.RankResults[s.id.dpRank].FPMs})
		s.forward.count, s.earlier = p.Forwards, p.Elapsed
	}
	s.kept = len(j.Points)
	s.journal.recorded, s.journal.staged = len(s.doc.Ledger.Records), len(s.doc.KVWarm.Stages)
	*s.history() = artifact.NewHistory(j)
	s.history().Begin(*process, dropped)
	if len(j.Points) > 0 {
		s.started = j.Processes[0].StartedAt
	}
	if s.id.dpRank == 0 && len(j.Processes) > 0 {
		s.cfg.Logger.Info("going on with an earlier run", "measured", len(j.Points), "of", s.plan.Expected, "process", process.Process)
	}
	return nil
}

// queue is what is left to measure. A shape that needs a warm-up gets it again in every process that still measures it.
func (s *Session) queue() []artifact.Point {
	done := map[int]bool{}
	for _, r := range s.doc.Results {
		done[r.Point.BenchmarkID] = true
	}
	type shape struct {
		phase  string
		driver int
	}
	needed := map[shape]bool{}
	for _, p := range s.plan.Points {
		if !p.Replica() && !done[p.BenchmarkID] {
			needed[shape{p.PointType, p.Driver()}] = true
		}
	}
	var left []artifact.Point
	for _, p := range s.plan.Points {
		if p.Replica() && needed[shape{p.PointType, p.Driver()}] || !p.Replica() && !done[p.BenchmarkID] {
			left = append(left, p)
		}
	}
	return left
}

// warmupAgain is the global warm-up of a process that goes on behind the first point. Readers know that kind of record before the first point
// only, so this one stands in the history of the processes.
func (s *Session) warmupAgain(ctx context.Context) error {
	at := len(s.doc.Ledger.Records)
	err := s.warmup(ctx)
	if made := s.doc.Ledger.Records[at:]; len(made) > 0 {
		record := made[0]
		s.journal.warmup = &record
		processes := s.history().Processes
		processes[len(processes)-1].Preparation = &record
		s.doc.Ledger.Records = s.doc.Ledger.Records[:at]
	}
	return err
}
