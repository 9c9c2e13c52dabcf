package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stopper turns signals into a stop at the next point boundary; a second one, unless it is SIGUSR1, ends the run at once.
type stopper struct {
	mu     sync.Mutex
	stop   func()    // of the session; nil before there is one
	asked  os.Signal // the first signal; nil before
	cancel context.CancelFunc
	done   chan struct{}
}

// newStopper starts listening. The returned context ends when the run must end at once.
func newStopper(parent context.Context) (context.Context, *stopper) {
	ctx, cancel := context.WithCancel(parent)
	s := &stopper{cancel: cancel, done: make(chan struct{})}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-s.done:
				return
			case sig := <-signals:
				s.signal(sig)
			}
		}
	}()
	return ctx, s
}

func (s *stopper) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stop == nil, s.asked != nil && sig != syscall.SIGUSR1:
		s.cancel()
	case s.asked == nil:
		s.asked = sig
		s.stop()
	}
}

// use names what a signal stops from now on.
func (s *stopper) use(stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = stop
}

// reason says what stopped a run: a signal that came here, or else the time limit or another rank.
func (s *stopper) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		return "the time limit, or another rank"
	}
	return "signal: " + s.asked.String()
}

// signalled reports whether a signal came.
func (s *stopper) signalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked != nil
}

// close stops listening.
func (s *stopper) close() {
	close(s.done)
	s.cancel()
}
