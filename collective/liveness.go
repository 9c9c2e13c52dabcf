package collective

import (
	"fmt"
	"time"
)

const (
	beatEvery = time.Second            // heartbeat on a tree edge
	jobPoll   = 50 * time.Millisecond  // look at the job page
	exitGrace = 100 * time.Millisecond // from an exit in the job page to the loss, for a LEAVE under way
	starved   = 2 * time.Second        // a ticker later than this was suspended, not its peers
)

// edge is what liveness knows of one tree edge.
type edge struct {
	peer      int
	lastRead  time.Time
	lastWrite time.Time
}

// liveness decides about silence. No clock, no connection: tick takes the time and the edges.
type liveness struct {
	limit time.Duration
	last  time.Time // of the previous tick
	grace time.Time // silence counts from here at the earliest
}

// tick returns the peers to send a heartbeat to and those that count as lost. A late tick or a pause of
// the job restarts all clocks: the silence was ours.
func (l *liveness) tick(now time.Time, paused bool, edges []edge) (beat, lost []int) {
	if paused || l.last.IsZero() || now.Sub(l.last) > beatEvery+starved {
		l.grace = now
	}
	l.last = now
	for _, e := range edges {
		if now.Sub(e.lastWrite) >= beatEvery-beatEvery/10 {
			beat = append(beat, e.peer)
		}
		since := e.lastRead
		if l.grace.After(since) {
			since = l.grace
		}
		if l.limit > 0 && now.Sub(since) > l.limit {
			lost = append(lost, e.peer)
		}
	}
	return beat, lost
}

// tick is the world's only timer: heartbeats once a second, and the job page twenty times a second where there is one.
func (w *world) tick() {
	every := beatEvery
	if w.job != nil {
		every = jobPoll
	}
	t := time.NewTicker(every)
	defer t.Stop()
	var l liveness
	var beaten time.Time
	var seen uint64
	for {
		select {
		case <-t.C:
		case <-w.ctx.Done():
			return
		}
		now := time.Now()
		paused := false
		if w.job != nil {
			paused, _ = w.job.Paused()
			w.lookAtExits(now, &seen)
		}
		if now.Sub(beaten) < beatEvery-every/2 {
			continue
		}
		beaten = now
		w.mu.Lock()
		l.limit = w.liveness
		quiet := now.Before(w.quiet)
		var edges []edge
		for peer, c := range w.controls {
			if peer == treeParent(w.rank) || treeParent(peer) == w.rank {
				edges = append(edges, edge{peer, time.Unix(0, c.lastRead.Load()), time.Unix(0, c.lastWrite.Load())})
			}
		}
		w.mu.Unlock()
		beat, lost := l.tick(now, paused, edges)
		for _, peer := range beat {
			w.mu.Lock()
			c := w.controls[peer]
			w.mu.Unlock()
			if c != nil && !quiet {
				c.beat()
			}
		}
		for _, peer := range lost {
			text := fmt.Sprintf("no sign of life for %v", l.limit)
			if is := w.condition(peer); is != "" {
				text += ", " + is
			}
			w.publish(event{Kind: eventLost, Subject: peer, Text: text})
		}
	}
}

// lookAtExits turns exits in the job page into losses, after a moment in which a LEAVE may still come.
func (w *world) lookAtExits(now time.Time, seen *uint64) {
	w.mu.Lock()
	if g := w.job.Generation(); g != *seen && w.table != nil {
		*seen = g
		for r := range w.size {
			if _, ok := w.job.Exit(r); ok && r != w.rank && !w.roster.gone(r) && w.exits[r].IsZero() {
				w.exits[r] = now
			}
		}
	}
	var lost []int
	for r, at := range w.exits {
		if w.roster.gone(r) {
			delete(w.exits, r)
		} else if now.Sub(at) >= exitGrace {
			lost = append(lost, r)
			delete(w.exits, r)
		}
	}
	w.mu.Unlock()
	for _, r := range lost {
		if e, ok := w.job.Exit(r); ok {
			w.publish(event{Kind: eventLost, Subject: r, Text: e.String()})
		}
	}
}
