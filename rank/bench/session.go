package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/kv"
)

// Session is one run on the leader of one DP rank. It is used once.
type Session struct {
	cfg     Config
	engine  gpu.Engine
	leaders *collective.Comm // the leaders of all DP ranks; its rank is the DP rank
	cache   *kv.Manager
	id      identity
	content artifact.Content
	shape   func(phase string, fresh, kv []int) (string, error) // artifact.Shape
	warm    warm
	forward forward

	limits artifact.Limits // the group's common limits
	plan   *artifact.Plan
	doc    artifact.Rank
	chains map[string]int // computed tokens of each real-prefix chain, by salt

	journal  journal
	observer observer
	ceilings []artifact.Ceilings
	timing   artifact.Diagnostic
	began    time.Time      // of this process's part of the run
	started  string         // of the run, when an earlier process began it
	earlier  artifact.Float // seconds that earlier processes took
	measured int            // points that this process measured
	kept     int            // points that earlier processes measured

	lockstep lockstep
	salts    int // counter of process-local cache salts
	deadline time.Time
	stop     atomic.Bool
	stopped  bool // the group stopped early
	heap     uint64
}

// New prepares a run. leaders' rank is the DP rank and its size the DP size.
func New(cfg Config, engine gpu.Engine, leaders *collective.Comm) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cache, err := kv.New(kv.Config{Blocks: cfg.Blocks, BlockSize: cfg.BlockSize, PrefixCaching: cfg.PrefixCaching})
	if err != nil {
		return nil, err
	}
	if cfg.GraphMetrics == nil {
		cfg.GraphMetrics = NewGraphMetrics(true)
	}
	rank := leaders.Rank()
	content, err := cfg.content(rank)
	if err != nil {
		return nil, err
	}
	s := &Session{
		cfg: cfg, engine: engine, leaders: leaders, cache: cache,
		id:      identity{worker: cfg.WorkerID, dpRank: rank, graphMetrics: cfg.GraphMetrics},
		content: content, shape: artifact.Shape,
		forward: forward{engine: engine, depth: engine.Info().Depth, limit: ownLimit},
		chains:  map[string]int{},
	}
	s.lockstep = newLockstep(cfg.ExpertParallel, leaders, &s.forward)
	s.observer = newObserver(&cfg)
	if cfg.HostEvidence {
		s.forward.mark = s.observer.mark
	}
	s.doc = s.newDocument()
	return s, nil
}

// Stop asks the run to end at the next point boundary. It may be called from any goroutine.
func (s *Session) Stop() { s.stop.Store(true) }

func (s *Session) wantsStop() bool {
	progressed := s.measured+len(s.doc.Skipped) > 0
	return s.stop.Load() || progressed && time.Now().After(s.deadline)
}

// Run measures the grid and returns the rank's document, whatever happened. The error, if any, is in the document
// too. stopped says that the run ended before its last point without an error.
func (s *Session) Run(ctx context.Context, runID string) (doc *artifact.Rank, stopped bool, err error) {
	s.began = time.Now()
	s.deadline = s.began.Add(s.cfg.Timeout)
	s.doc.RunID = runID
	defer s.forward.watch.stop()
	// The collector runs between points only; a memory limit set from outside still holds.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	err = errors.Join(s.run(ctx), s.closeJournal())
	s.doc.Timing = artifact.RunTiming{StartedAt: stamp(s.began), CompletedAt: stamp(s.began.Add(time.Since(s.began))), Elapsed: s.elapsed()}
	if s.started != "" {
		s.doc.Timing.StartedAt = &s.started
	}
	expected := 0
	if s.plan != nil {
		expected = s.plan.Expected
		s.doc.GridDigest, s.doc.MissingPhases = &s.plan.Digest, s.plan.MissingPhases
	}
	s.doc.Finish(expected, s.stopped, err)
	return &s.doc, s.stopped, err
}

func (s *Session) run(ctx context.Context) error {
	if err := s.agreeCapacity(ctx); err != nil {
		return err
	}
	if err := s.planGrid(); err != nil {
		return err
	}
	if err := s.agreeGrid(ctx); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	queue := s.queue()
	for i, point := range queue {
		if err := s.readCeilings(ctx, i, len(queue)); err != nil {
			return err
		}
		stop, err := s.agreeStop(ctx)
		if err != nil {
			return err
		}
		if stop {
			s.stopped = true
			break
		}
		before := len(s.doc.Results)
		if err := s.measure(ctx, point); err != nil {
			return err
		}
		if len(s.doc.Results) > before {
			if err := s.keep(); err != nil {
				return err
			}
			s.tell()
		}
		s.collect()
	}
	if err := s.readCeilings(ctx, len(queue), len(queue)); err != nil {
		return err
	}
	if s.stopped && len(s.doc.Results) == 0 {
		return errors.New("bench: stopped before the first point was measured")
	}
	s.warm.release()
	if err := s.cache.Reset(); err != nil {
		return fmt.Errorf("bench: clean up: %w", err)
	}
	if err := s.leaders.Barrier(ctx); err != nil {
		return fmt.Errorf("bench: agree on the clean-up: %w", err)
	}
	return nil
}

// start opens the journal and warms up, where there is something to measure.
func (s *Session) start(ctx context.Context) error {
	warmup := s.warmup
	if s.cfg.Resume {
		if err := s.resumeJournal(ctx); err != nil {
			return err
		}
		if len(s.doc.Results) > 0 {
			warmup = s.warmupAgain
		}
	} else if err := s.startJournal(); err != nil {
		return err
	}
	if len(s.queue()) == 0 {
		return nil
	}
	if err := s.prepareEngine(); err != nil {
		return err
	}
	if s.cfg.Prepared != nil {
		s.cfg.Prepared()
	}
	if err := warmup(ctx); err != nil {
		return err
	}
	return s.lockstep.settle(ctx)
}

// prepareEngine makes the engine ready for every kind of step that is to be measured.
func (s *Session) prepareEngine() error {
	for _, p := range s.queue() {
		decode := p.PointType == artifact.Decode
		if !decode {
			fresh, cached, err := p.Lengths(s.limits.BlockSize)
			if err != nil {
				return err
			}
			decode = !slices.ContainsFunc(fresh, func(n int) bool { return n != 1 }) && !slices.Contains(cached, 0) // the engine cannot tell such a step from a decode step
		}
		if err := s.forward.engine.Prepare(p.Driver(), p.BatchSize, decode); err != nil {
			return fmt.Errorf("bench: prepare the engine for point %d, %d requests: %w", p.BenchmarkID, p.BatchSize, err)
		}
	}
	return nil
}

// Began reports whether the run got as far as its journal. A document of one that did not says nothing that could be of use.
func (s *Session) Began() bool { return s.journal.writer != nil }

func (s *Session) planGrid() error {
	plan, err := s.cfg.plan(&s.limits, s.warm.eligible)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	s.plan = plan
	if plan.Imbalanced > 0 && s.id.dpRank == 0 {
		s.cfg.Logger.Info("imbalanced points dropped; --collect-imbalanced keeps them", "count", plan.Imbalanced)
	}
	s.doc.Limits = s.runLimits()
	s.doc.Cudagraph = s.runGraph()
	return nil
}

// heapGrowth is how much the heap may grow before the collector runs at a point boundary.
const heapGrowth = 256 << 20

// collect runs the Go collector between points once the heap has grown.
func (s *Session) collect() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > s.heap+heapGrowth {
		runtime.GC()
		runtime.ReadMemStats(&m)
		s.heap = m.HeapAlloc
	}
}

// freshSalt separates a request's cache namespace from every other in this process. It never selects content.
func (s *Session) freshSalt() string {
	s.salts++
	return "request-" + strconv.Itoa(s.salts)
}

func (s *Session) freshSalts(n int) []string {
	salts := make([]string, n)
	for i := range salts {
		salts[i] = s.freshSalt()
	}
	return salts
}

func (s *Session) report(point artifact.Point, wall float64, skipped string) {
	if s.cfg.Progress != nil && s.id.dpRank == 0 {
		s.cfg.Progress(Progress{Earlier: s.kept, Done: len(s.doc.Results) + len(s.doc.Skipped), Total: s.plan.Expected, Point: point, WallTime: wall, Skipped: skipped})
	}
}

func stamp(t time.Time) *string {
	s := t.UTC().Format("2006-01-02T15:04:05.000000Z")
	return &s
}
