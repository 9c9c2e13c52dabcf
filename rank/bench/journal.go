package bench

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
)

// journal is where a session keeps each finished point before the next one starts, so that a run which is killed can go on in another process.
//
// A point is written as soon as all ranks have exchanged their results of it, between two timed regions. The write reaches the kernel before the
// next point starts, which outlives every process. The disk has it at the latest when the first point is finished more than syncInterval after
// the sync before, and at the end of the run: what a machine that loses its power may take with it are the points of about one second.
type journal struct {
	writer   *artifact.JournalWriter
	synced   time.Time
	recorded int                     // ledger records in the journal
	staged   int                     // stages of text chains in it
	warmup   *artifact.LedgerRecord  // this process's global warm-up where it stands outside the ledger; until its first point
	seen     *artifact.PointEvidence // of the last result; nil without host evidence
}

// syncInterval is how long a finished point may be in the kernel only.
const syncInterval = time.Second

// newProcess is this process as it will stand in the journal. The grid is planned by now.
func (s *Session) newProcess() (*artifact.JournalProcess, error) {
	protocol, err := json.Marshal(s.doc.Protocol)
	if err != nil {
		return nil, err
	}
	engine, err := artifact.EngineIdentity(s.doc.Engine)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s.cfg.textIdentity())
	if err != nil {
		return nil, err
	}
	launch := s.cfg.Launch
	launch.RunID = s.doc.RunID
	return &artifact.JournalProcess{
		Format: artifact.JournalFormat, Process: 1, Launch: launch, StartedAt: *stamp(s.began), Output: filepath.Base(s.cfg.OutputPath),
		Rank: s.id.dpRank, Size: s.leaders.Size(), Mode: s.cfg.Mode, Reverse: s.cfg.Reverse, GridDigest: s.plan.Digest, Expected: s.plan.Expected,
		ContentSeed: s.cfg.ContentSeed, Protocol: protocol, Text: text, Engine: engine,
	}, nil
}

// startJournal begins the journal of a run that starts anew.
func (s *Session) startJournal() error {
	process, err := s.newProcess()
	if err != nil {
		return err
	}
	s.journal.writer, err = artifact.CreateJournal(artifact.JournalPath(s.cfg.OutputPath, s.id.dpRank), *process)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	s.journal.synced = time.Now()
	s.history().Begin(*process, 0)
	return nil
}

// keep appends the last result to the journal.
func (s *Session) keep() error {
	last := len(s.doc.Results) - 1
	point := artifact.JournalPoint{
		Group: s.doc.Groups[last], KVSeedRegime: s.doc.Results[last].KVSeedRegime, Ledger: s.doc.Ledger.Records[s.journal.recorded:],
		Stages: s.doc.KVWarm.Stages[s.journal.staged:], Forwards: s.forward.count, Elapsed: s.elapsed(), Preparation: s.journal.warmup, Evidence: s.journal.seen,
	}
	if err := s.journal.writer.Append(point); err != nil {
		return fmt.Errorf("bench: keep point %d: %w; what was measured before it is kept", point.Group.BenchmarkID, err)
	}
	s.journal.recorded, s.journal.staged, s.journal.warmup = len(s.doc.Ledger.Records), len(s.doc.KVWarm.Stages), nil
	s.history().Add(point.Group.BenchmarkID, point.Evidence)
	s.measured++
	if time.Since(s.journal.synced) < syncInterval {
		return nil
	}
	s.journal.synced = time.Now()
	return s.journal.writer.Sync()
}

// closeJournal ends the journal, if there is one.
func (s *Session) closeJournal() error {
	if s.journal.writer == nil {
		return nil
	}
	if err := s.journal.writer.Close(); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// elapsed is how long the run took so far in all of its processes.
func (s *Session) elapsed() artifact.Float {
	return s.earlier + artifact.Float(time.Since(s.began).Seconds())
}

// history is where the document tells which process measured what.
func (s *Session) history() *artifact.History {
	if s.cfg.History == nil {
		s.cfg.History = &artifact.History{}
	}
	return s.cfg.History
}
