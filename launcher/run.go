package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
	"github.com/fpmrun/fpmrun/launcher/keeper"
)

// causeWindow is how long after the first failing exit the cause is chosen: the failure of one rank makes others fail.
const causeWindow = 100 * time.Millisecond

// causePatience is how long the choice waits for the end of a rank that another one blames: a process that ends closes its connections
// before its end can be seen, and on a busy machine long before.
const causePatience = 500 * time.Millisecond

// watch is a job that runs, seen from the front.
type watch struct {
	*job
	*session
	began   time.Time
	host    string
	outputs sync.WaitGroup
	lines   chan string   // of the launcher's own, on their way to stderr
	said    chan struct{} // closed when all of them are printed

	live   map[int]int  // rank -> pid
	left   int          // ranks that have not ended
	joined map[int]bool // ranks whose join was told

	viewer  viewer          // of the ranks here
	asked   int             // reports so far
	askings map[int]*asking // by number, those that are not complete
	blamed  map[int]int     // rank of another node -> rank that its last error names
	gone    map[int]bool    // ranks of other nodes that have ended, or were lost with their node

	end   End
	stop  bool // the ranks were told to stop
	chose bool // the cause was chosen

	suspending     *suspension
	stopped        bool      // this process stopped itself and was not told to go on
	continued      time.Time // when it was last told to go on without having been stopped
	failed         time.Time // the first failing exit that a cause is sought for
	grace          *limit
	window, status <-chan time.Time
}

func newWatch(j *job, c *session) *watch {
	w := &watch{job: j, session: c, began: time.Now(), live: map[int]int{}, left: len(j.plan.Ranks), joined: map[int]bool{}, viewer: viewer{j.folder, map[int]time.Duration{}}, askings: map[int]*asking{}, blamed: map[int]int{}, gone: map[int]bool{},
		lines: make(chan string, maxLines), said: make(chan struct{}), grace: &limit{}}
	var err error
	if w.host, err = os.Hostname(); err != nil {
		w.host = "unknown"
	}
	return w
}

func (w *watch) copyOutput() {
	o := &w.plan.options
	for i, s := range w.streams {
		if s.out != nil {
			s.backlog = newBacklog(w.room, o.SlowConsole == Drop, func(n int64) {
				w.event("output-truncated", s.rank, Event{Stream: [2]string{"stdout", "stderr"}[i%2], Bytes: n})
			})
		}
		w.outputs.Go(func() { s.copy(o.FlushPartial) })
	}
}

// loop handles what happens until no rank is left.
func (w *watch) loop(ctx context.Context) {
	o := &w.plan.options
	if o.Status > 0 {
		ticker := time.NewTicker(o.Status)
		defer ticker.Stop()
		w.status = ticker.C
	}
	var joins <-chan time.Time
	if w.events != nil {
		ticker := time.NewTicker(joinInterval)
		defer ticker.Stop()
		joins = ticker.C
	}
	done := ctx.Done()
	for w.left > 0 {
		select {
		case <-w.told.some:
			list, lost := w.told.take()
			for _, n := range list {
				w.notice(n)
			}
			if lost != nil && w.left > 0 {
				w.keeperLost(lost)
				return
			}
		case l := <-w.letters():
			w.letter(l)
		case sig := <-w.signals:
			w.signal(sig.(syscall.Signal))
		case <-w.window:
			w.window = nil
			w.decide()
		case <-w.grace.C:
			w.send(syscall.SIGKILL)
		case <-w.suspendLimit():
			w.stopHere()
		case <-joins:
			w.lookForJoins()
		case <-w.limit.C:
			w.event("timeout", -1, Event{Seconds: o.Timeout.Seconds()})
			w.ask(true) // only queued: the ranks are stopped at once
			w.stopFor(fmt.Sprintf("timeout of %v", o.Timeout), 124, ByTimeout)
		case <-w.status:
			w.ask(false)
		case <-done:
			done = nil
			w.stopFor(context.Cause(ctx).Error(), 128+int(syscall.SIGTERM), BySignal)
		}
	}
	w.decide()
}

func (w *watch) notice(n keeper.Notice) {
	switch {
	case n.Failed != 0:
		w.left--
		w.notStarted(n)
	case n.Stopped:
		w.rankStopped(n.Rank)
	case n.Exited:
		w.left--
		w.lookForJoin(n.Rank)
		e := Exit{Rank: n.Rank, PID: w.live[n.Rank], Status: n.Status.ExitStatus(), After: time.Since(w.began), Stopped: w.stop, Why: n.Why}
		code := state.Exit{Status: e.Status}
		if n.Status.Signaled() {
			e.Signal = n.Status.Signal()
			e.Status = 128 + int(e.Signal)
			code = state.Exit{Status: int(e.Signal), Signalled: true}
		}
		w.tellExit(n.Rank, code)
		delete(w.live, n.Rank)
		w.end.Exits = append(w.end.Exits, e)
		w.exited(e)
		if w.suspending != nil {
			w.suspended()
		}
		if e.failed() && !w.stop && w.window == nil && !w.chose {
			w.failed, w.window = time.Now(), time.After(causeWindow)
		}
	default:
		w.live[n.Rank] = n.PID
		r := &w.plan.Ranks[n.Rank]
		w.event("start", n.Rank, Event{PID: n.PID, Host: w.hostOf(n.Rank), Node: w.nodeNumber(n.Rank), CPUs: r.CPUs, GPUs: r.GPUs})
		if n.Unbound != 0 {
			w.tell(fmt.Sprintf("rank %d (pid %d) runs unbound: CPUs %v: %v", n.Rank, n.PID, r.CPUs, n.Unbound))
		}
	}
}

// notStarted ends a job whose program the kernel refused.
func (w *watch) notStarted(n keeper.Notice) {
	if w.end.Err != nil {
		return
	}
	status := 126
	if n.Failed == syscall.ENOENT {
		status = 127
	}
	r := w.plan.Ranks[n.Rank]
	w.end.Err = &NotFoundError{Program: r.Args[0], Status: status, Reason: "cannot be started: " + n.Failed.Error()}
	w.stopFor("", status, NotStarted)
}

// decide chooses the cause once, and stops the others where that is the policy.
func (w *watch) decide() {
	if w.chose || w.end.Err != nil || w.end.Reason != "" {
		return
	}
	c := cause(w.end.Exits, w.blames)
	if c == nil {
		return
	}
	if blamed := w.blames(c.Rank); w.left > 0 && (w.lives(blamed) && time.Since(w.failed) < causePatience || w.doubtful(blamed)) {
		w.window = time.After(causeWindow)
		return
	}
	w.chose = true
	chosen := *c
	chosen.Last = w.streams[2*chosen.Rank+1].lastLine()
	w.end.Cause = &chosen
	if w.plan.options.OnFailure == Stop && w.left > 0 {
		w.stopAll()
		w.tell(w.describe(chosen) + "; stopping the others")
	}
}

// lives reports whether a rank has not ended, as far as is known here.
func (w *watch) lives(rank int) bool {
	_, lives := w.live[rank]
	return lives
}

// blames is the rank that a rank's last collective error names, or -1.
func (w *watch) blames(rank int) int {
	if w.nodeOf(rank) == nil {
		return w.folder.blamed(rank)
	}
	if blamed, told := w.blamed[rank]; told {
		return blamed
	}
	return -1
}

// stopFor stops the job for a reason of the launcher's own.
func (w *watch) stopFor(reason string, status int, class Class) {
	if w.end.Reason == "" {
		w.end.Reason, w.end.Status, w.end.Class = reason, status, class
	}
	if !w.stop {
		w.stopAll()
	}
}

// stopAll sends the stop signal and starts the grace.
func (w *watch) stopAll() {
	w.stop = true
	w.send(w.plan.options.KillSignal)
	w.send(syscall.SIGCONT) // a stopped rank sees the signal only when it goes on
	w.grace = newLimit(w.plan.options.KillGrace)
}

// send signals the process groups of all ranks that live.
func (w *watch) send(sig syscall.Signal) {
	// A keeper that cannot be written to is gone, which the loop sees.
	_ = order(w.conn, keeper.Order{Signal: sig})
	w.tellNodes(toAgent{Signal: sig})
}

// keeperLost kills the ranks after their keeper died: their parent-death signal has hit them, and what they started is in
// their process groups.
func (w *watch) keeperLost(err error) {
	for _, pid := range w.live {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	killMarked(w.plan.RunID)
	w.end.Err = fmt.Errorf("launcher: the keeper of the ranks died: %w", err)
	w.end.Status, w.end.Class = 1, ByLauncher
}

// finish collects what is left and says how the job ended.
func (w *watch) finish() End {
	var late []letter
	printed := make(chan struct{})
	go func() {
		late = w.cluster().settle(w.plan)
		w.outputs.Wait()
		close(printed)
	}()
	_ = order(w.conn, keeper.Order{Finish: true}) // a keeper that is gone shows in its exit status
	folder, cleaned := w.folder, make(chan error, 1)
	w.folder = nil // removed here, while the keeper ends
	go func() { cleaned <- folder.remove() }()
	if err := w.keeper.Wait(); err != nil && w.end.Err == nil {
		w.end.Err = fmt.Errorf("launcher: keeper: %w", err)
	}
	if !w.inTime(printed) {
		w.end.Err = errors.New("launcher: the console does not take what the ranks printed; the rest is lost")
		w.tellEnd()
		return w.abandon(<-cleaned)
	}
	for _, l := range late {
		w.letter(l)
	}
	w.unanswered(nil)
	for _, s := range w.streams {
		if s.fileErr != nil && w.end.Err == nil {
			w.end.Err = fmt.Errorf("launcher: --output-dir: %w", s.fileErr)
		}
	}
	for _, s := range []*sink{w.stdout, w.stderr} {
		if s.err != nil && w.end.Err == nil {
			w.end.Err = s.err
		}
	}
	if why := w.room.err.Load(); why != nil {
		w.tell(fmt.Sprintf("--output-spill: %v; what the console did not take waited in memory only", *why))
	}
	w.judge()
	w.lastWords()
	close(w.lines)
	before := w.end.Reason
	if taken := w.inTime(w.said); taken && w.end.Reason != before { // a signal came after the last words
		w.end.text = "stopped: " + w.end.Reason
		w.stderr.say("fpmrun: " + w.end.text)
	}
	w.tellEnd()
	return w.abandon(<-cleaned)
}

// inTime waits for something that needs the console. A job that was stopped, or is now, does not wait for ever for a
// reader that does not read.
func (w *watch) inTime(done <-chan struct{}) bool {
	over := &limit{}
	if w.end.Reason != "" {
		over = newLimit(w.plan.options.KillGrace)
	}
	defer func() { over.stop() }()
	for {
		select {
		case <-done:
			return true
		case <-over.C:
			return false
		case sig := <-w.signals:
			if s := sig.(syscall.Signal); ends(s) {
				if w.end.Reason != "" {
					return false
				}
				w.end.Reason, w.end.Status, w.end.Class = s.String(), 128+int(s), BySignal
				over = newLimit(min(w.plan.options.KillGrace, eventsGrace))
			}
		}
	}
}

// abandon releases what is left; cleaned is the result of removing the job's folder.
func (w *watch) abandon(cleaned error) End {
	if err := errors.Join(cleaned, w.cleanUp()); err != nil && w.end.Err == nil {
		w.end.Err = err
	}
	return w.end
}

// judge fills in the job's exit status and its class.
func (w *watch) judge() {
	switch {
	case w.end.Status != 0: // stopped by the launcher
	case w.end.Cause != nil && w.plan.options.OnFailure != Ignore:
		w.end.Status, w.end.Class = w.end.Cause.Status, ByRank
	case w.end.Err != nil:
		w.end.Status, w.end.Class = 1, ByLauncher
		var missing *NotFoundError
		if errors.As(w.end.Err, &missing) {
			w.end.Status, w.end.Class = missing.Status, NotStarted
		}
	default:
		w.end.Class = Success
	}
}
