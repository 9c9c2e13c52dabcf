package launcher

import "syscall"

// ends reports whether a signal asks a program to end.
func ends(sig syscall.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP
}

// signal passes a signal on to the ranks. Those that end a program also stop the job; the second interrupt ends it at
// once.
func (w *watch) signal(sig syscall.Signal) { w.signalled(sig, "") }

// signalled is signal for one that came at another place.
func (w *watch) signalled(sig syscall.Signal, place string) {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
		if w.stop {
			if sig == syscall.SIGINT {
				w.send(syscall.SIGKILL)
			}
			return
		}
		w.end.Reason, w.end.Status, w.end.Class = sig.String()+place, 128+int(sig), BySignal
		w.stop = true
		w.send(sig)
		w.grace = newLimit(w.plan.options.KillGrace)
	case syscall.SIGUSR1, syscall.SIGUSR2:
		w.send(sig)
	case syscall.SIGQUIT:
		w.ask(true)
		if w.plan.options.OnQuit == Dump {
			w.send(sig)
		}
	case syscall.SIGTSTP:
		w.suspend()
	case syscall.SIGCONT:
		w.proceed()
	}
}
