package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endings are the signals that end the program.
var endings = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// leaveNothing removes a file when a signal ends the program, which still ends by that signal. Call over when the file is finished.
func leaveNothing(path string) (over func()) {
	came, finished := make(chan os.Signal, 1), make(chan struct{})
	for _, s := range endings {
		if !signal.Ignored(s) { // as in the background of a shell, or under nohup
			signal.Notify(came, s)
		}
	}
	go func() {
		select {
		case s := <-came:
			_ = os.Remove(path) // nobody is left to be told
			signal.Reset(s)
			_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
		case <-finished:
		}
	}()
	return func() {
		signal.Stop(came)
		close(finished)
	}
}
