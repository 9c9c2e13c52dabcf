package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

// causeWindow is how long after the first failing exit the cause is chosen: the failure of one rank makes others fail.
const causeWindow = 100 * time.Millisecond

// watched are the signals that the front handles.
var watched = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGPIPE}

// Run starts a plan and returns when nothing of it is left. Signals that this process gets while it runs go to the ranks.
// The caller's stderr gets one line that names the cause of a failure.
func Run(ctx context.Context, p *Plan, s Streams) End {
	signals := make(chan os.Signal, 16)
	for _, sig := range watched {
		if !signal.Ignored(sig) || sig == syscall.SIGPIPE {
			signal.Notify(signals, sig)
		}
	}
	defer signal.Stop(signals)
	j, err := start(p, s)
	if err != nil {
		return End{Status: 1, Err: err}
	}
	w := &watch{job: j, began: time.Now(), live: map[int]int{}, left: len(p.Ranks), over: make(chan struct{}),
		lines: make(chan string, maxLines), said: make(chan struct{})}
	go w.speak()
	if w.host, err = os.Hostname(); err != nil {
		w.host = "unknown"
	}
	w.copyOutput()
	if len(j.stdin) > 0 {
		go j.feed(s.In)
	}
	w.loop(ctx, signals)
	return w.finish()
}

// watch is a job that runs, seen from the front.
type watch struct {
	*job
	began   time.Time
	host    string
	outputs sync.WaitGroup
	over    chan struct{} // closed when nobody listens to the keeper any more
	lines   chan string   // of the launcher's own, on their way to stderr
	said    chan struct{} // closed when all of them are printed

	live  map[int]int // rank -> pid
	left  int         // ranks that have not ended
	end   End
	stop  bool // the ranks were told to stop
	chose bool // the cause was chosen

	window, grace, limit, status <-chan time.Time
}

func (w *watch) copyOutput() {
	for _, s := range w.streams {
		w.outputs.Go(func() { s.copy(w.console, w.plan.options.FlushPartial) })
	}
}

// loop handles what happens until no rank is left.
func (w *watch) loop(ctx context.Context, signals <-chan os.Signal) {
	notices, lost := w.notices()
	o := &w.plan.options
	if o.Timeout > 0 {
		w.limit = time.After(o.Timeout)
	}
	if o.Status > 0 {
		ticker := time.NewTicker(o.Status)
		defer ticker.Stop()
		w.status = ticker.C
	}
	done := ctx.Done()
	for w.left > 0 {
		select {
		case n := <-notices:
			w.notice(n)
		case err := <-lost:
			w.keeperLost(err)
			return
		case sig := <-signals:
			w.signal(sig.(syscall.Signal))
		case <-w.window:
			w.window = nil
			w.decide()
		case <-w.grace:
			w.send(syscall.SIGKILL)
		case <-w.limit:
			w.report() // only queued: the ranks are stopped at once
			w.stopFor(fmt.Sprintf("timeout of %v", o.Timeout), 124)
		case <-w.status:
			w.liveness()
		case <-done:
			done = nil
			w.stopFor(context.Cause(ctx).Error(), 128+int(syscall.SIGTERM))
		}
	}
	w.decide()
}

// notices decodes what the keeper says. lost gets one error when the keeper is gone.
func (w *watch) notices() (<-chan notice, <-chan error) {
	notices, lost := make(chan notice), make(chan error, 1)
	go func() {
		in := json.NewDecoder(w.conn)
		for {
			var n notice
			if err := in.Decode(&n); err != nil {
				lost <- err
				return
			}
			select {
			case notices <- n:
			case <-w.over:
				return
			}
		}
	}()
	return notices, lost
}

func (w *watch) notice(n notice) {
	switch {
	case n.Failed != 0:
		w.left--
		w.notStarted(n)
	case n.Exited:
		w.left--
		e := Exit{Rank: n.Rank, PID: w.live[n.Rank], Status: n.Status.ExitStatus(), After: time.Since(w.began), Stopped: w.stop}
		code := state.Exit{Status: e.Status}
		if n.Status.Signaled() {
			e.Signal = n.Status.Signal()
			e.Status = 128 + int(e.Signal)
			code = state.Exit{Status: int(e.Signal), Signalled: true}
		}
		w.folder.job.SetExit(n.Rank, code)
		delete(w.live, n.Rank)
		w.end.Exits = append(w.end.Exits, e)
		if e.failed() && !w.stop && w.window == nil && !w.chose {
			w.window = time.After(causeWindow)
		}
	default:
		w.live[n.Rank] = n.PID
	}
}

// notStarted ends a job whose program the kernel refused.
func (w *watch) notStarted(n notice) {
	if w.end.Err != nil {
		return
	}
	status := 126
	if n.Failed == syscall.ENOENT {
		status = 127
	}
	r := w.plan.Ranks[n.Rank]
	w.end.Err = &NotFoundError{Program: r.Args[0], Status: status, Reason: "cannot be started: " + n.Failed.Error()}
	w.stopFor("", status)
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
	w.chose = true
	chosen := *c
	chosen.Last = w.streams[2*chosen.Rank+1].lastLine()
	w.end.Cause = &chosen
	if w.plan.options.OnFailure == Kill && w.left > 0 {
		w.stopAll()
		w.tell(w.describe(chosen) + "; stopping the others")
	}
}

// blames is the rank that a rank's last collective error names, or -1.
func (w *watch) blames(rank int) int {
	snap, err := state.Read(w.folder.page(rank))
	if err != nil || snap.ErrKind == state.KindNone {
		return -1
	}
	return snap.Blamed
}

// stopFor stops the job for a reason of the launcher's own.
func (w *watch) stopFor(reason string, status int) {
	if w.end.Reason == "" {
		w.end.Reason, w.end.Status = reason, status
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
	w.grace = time.After(w.plan.options.KillGrace)
}

// send signals the process groups of all ranks that live.
func (w *watch) send(sig syscall.Signal) {
	// A keeper that cannot be written to is gone, which the loop sees.
	_ = send(w.conn, order{Signal: sig})
}

// keeperLost kills the ranks after their keeper died: their parent-death signal has hit them, and what they started is in
// their process groups.
func (w *watch) keeperLost(err error) {
	for _, pid := range w.live {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	killMarked(w.plan.RunID)
	w.end.Err = fmt.Errorf("launcher: the keeper of the ranks died: %w", err)
	w.end.Status = 1
}

// finish collects what is left and says how the job ended.
func (w *watch) finish() End {
	close(w.over)
	_ = send(w.conn, order{Finish: true}) // a keeper that is gone shows in its exit status
	folder, cleaned := w.folder, make(chan error, 1)
	w.folder = nil // removed here, while the keeper ends
	go func() { cleaned <- folder.remove() }()
	if err := w.keeper.Wait(); err != nil && w.end.Err == nil {
		w.end.Err = fmt.Errorf("launcher: keeper: %w", err)
	}
	printed := make(chan struct{})
	go func() {
		w.outputs.Wait()
		close(printed)
	}()
	if !w.inTime(printed) {
		w.end.Err = errors.New("launcher: the console does not take what the ranks printed; the rest is lost")
		return w.abandon(<-cleaned)
	}
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
	w.judge()
	w.lastWords()
	close(w.lines)
	w.inTime(w.said)
	return w.abandon(<-cleaned)
}

// inTime waits for something that needs the console. A job that was stopped does not wait for ever for a reader that
// does not read.
func (w *watch) inTime(done <-chan struct{}) bool {
	if w.end.Reason == "" {
		<-done
		return true
	}
	limit := time.NewTimer(w.plan.options.KillGrace)
	defer limit.Stop()
	select {
	case <-done:
		return true
	case <-limit.C:
		return false
	}
}

// abandon releases what is left; cleaned is the result of removing the job's folder.
func (w *watch) abandon(cleaned error) End {
	if err := errors.Join(cleaned, w.cleanUp()); err != nil && w.end.Err == nil {
		w.end.Err = err
	}
	return w.end
}

// judge fills in the job's exit status.
func (w *watch) judge() {
	switch {
	case w.end.Status != 0: // stopped by the launcher
	case w.end.Cause != nil && w.plan.options.OnFailure != Ignore:
		w.end.Status = w.end.Cause.Status
	case w.end.Err != nil:
		w.end.Status = 1
		var missing *NotFoundError
		if errors.As(w.end.Err, &missing) {
			w.end.Status = missing.Status
		}
	}
}
