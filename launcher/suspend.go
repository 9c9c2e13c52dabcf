package launcher

import (
	"os"
	"syscall"
	"time"
)

// suspendGrace is how long ranks may take to stop by themselves.
const suspendGrace = time.Second

// reordered is how long after a signal to go on one to stop may still be the older of the two: signals that wait together arrive
// in the order of their numbers.
const reordered = 100 * time.Millisecond

// suspension is a stop of the whole job that is under way, as a terminal's Ctrl-Z asks for.
type suspension struct {
	stopped map[int]bool // ranks whose process has stopped
	limit   *limit       // for those that have not
}

// suspend asks the ranks to stop. The job is suspended when all have, or when they had their time.
func (w *watch) suspend() {
	if w.suspending != nil || time.Since(w.continued) < reordered {
		return
	}
	w.folder.job.Pause()
	w.tellNodes(toAgent{Pause: true})
	w.suspending = &suspension{stopped: map[int]bool{}, limit: newLimit(suspendGrace)}
	w.send(syscall.SIGTSTP)
	w.suspended()
}

// rankStopped and rankContinued are told by the keeper.
func (w *watch) rankStopped(rank int) {
	if w.suspending != nil {
		w.suspending.stopped[rank] = true
		w.suspended()
	}
}

// suspended stops this process once every rank that lives has stopped.
func (w *watch) suspended() {
	for rank := range w.live {
		if !w.suspending.stopped[rank] {
			return
		}
	}
	w.stopHere()
}

// stopHere stops the ranks that have not done so, and this process. The signal that lets it go on also arrives as a signal,
// which lets the ranks go on.
func (w *watch) stopHere() {
	w.suspending.limit.stop()
	w.suspending = nil
	w.stopped = true
	w.send(syscall.SIGSTOP)
	w.limits(func(l *limit) { l.pause() })
	for _, r := range w.cluster().there() {
		r.link.flush()
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// proceed lets the ranks and the job's time limits go on.
func (w *watch) proceed() {
	switch {
	case w.suspending != nil:
		w.suspending.limit.stop()
		w.suspending = nil
	case !w.stopped:
		w.continued = time.Now()
	}
	w.stopped = false
	w.folder.job.Resume()
	w.tellNodes(toAgent{Resume: true})
	w.send(syscall.SIGCONT)
	w.limits(func(l *limit) { l.resume() })
}

func (w *watch) limits(do func(*limit)) {
	do(w.limit)
	do(w.grace)
}

// suspendLimit is the channel of a suspension's limit; nil without one.
func (w *watch) suspendLimit() <-chan time.Time {
	if w.suspending == nil {
		return nil
	}
	return w.suspending.limit.C
}
