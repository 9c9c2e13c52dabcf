package launcher

import (
	"os"
	"syscall"
	"time"
)

// signal passes a signal on to the ranks. Those that end a program also stop the job; the second interrupt ends it at
// once.
func (w *watch) signal(sig syscall.Signal) {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
		if w.stop {
			if sig == syscall.SIGINT {
				w.send(syscall.SIGKILL)
			}
			return
		}
		w.end.Reason, w.end.Status = sig.String(), 128+int(sig)
		w.stop = true
		w.send(sig)
		w.grace = time.After(w.plan.options.KillGrace)
	case syscall.SIGUSR1, syscall.SIGUSR2:
		w.send(sig)
	case syscall.SIGQUIT:
		w.report()
	case syscall.SIGTSTP:
		w.suspend()
	case syscall.SIGCONT:
		w.folder.job.Resume()
		w.send(syscall.SIGCONT)
	}
}

// suspendGrace is how long ranks may take to stop by themselves.
const suspendGrace = time.Second

// suspend stops the ranks and then this process, as a terminal's Ctrl-Z asks. It returns when the process goes on.
func (w *watch) suspend() {
	w.folder.job.Pause()
	w.send(syscall.SIGTSTP)
	for deadline := time.Now().Add(suspendGrace); time.Now().Before(deadline) && !w.allStopped(); {
		time.Sleep(10 * time.Millisecond)
	}
	w.send(syscall.SIGSTOP)
	// The continue signal that ends the stop also arrives as a signal, which lets the ranks go on.
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// allStopped reports whether every rank's process is stopped.
func (w *watch) allStopped() bool {
	for _, pid := range w.live {
		if letter := processState(pid); letter != 'T' && letter != 't' {
			return false
		}
	}
	return true
}
