package collective

import (
	"cmp"
	"errors"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

// classify gives a plain error of an operation its class.
func (c *Comm) classify(err error) *Error {
	return &Error{Kind: kindOf(err), Blamed: -1, Err: err}
}

// Close ends a group. Of the world it announces that this rank leaves, waits until all others have left or Config.Linger,
// and closes every connection; groups made from it end with it. Another group only ends here.
func (c *Comm) Close() error {
	w := c.w
	w.mu.Lock()
	closed := &Error{Op: "close", Group: c.id, Rank: w.rank, Kind: state.KindClosed, Blamed: -1, Text: "closed here"}
	if c.id != 0 {
		c.breakLocked(closed)
		w.mu.Unlock()
		c.release()
		return nil
	}
	if w.closing {
		w.mu.Unlock()
		return nil
	}
	w.closing = true
	failed := false
	seqs := map[uint64]uint64{}
	for id, g := range w.groups {
		g.mu.Lock()
		seqs[id] = g.seq
		g.mu.Unlock()
		failed = failed || g.broken.Load() != nil
	}
	w.mu.Unlock()
	w.publish(event{Kind: eventLeft, Subject: -1, Seqs: seqs})
	if !failed {
		w.linger()
	}
	w.mu.Lock()
	for _, g := range w.groups {
		g.breakLocked(closed)
	}
	w.mu.Unlock()
	w.page.SetPhase(state.Left)
	return w.shut(true)
}

// linger waits until every other rank is gone, so that nobody who still needs this one loses it.
func (w *world) linger() {
	longest := cmp.Or(w.cfg.Linger, max(w.liveness, 5*time.Second))
	if longest <= 0 {
		return
	}
	limit := time.NewTimer(longest)
	defer limit.Stop()
	for {
		w.mu.Lock()
		done, changed := w.roster.allGone(), w.changed
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			return
		}
	}
}

// farewell is how long connections may take to send what is queued.
const farewell = time.Second

// shut ends the world's goroutines and connections. With flush, what is queued is sent first.
func (w *world) shut(flush bool) error {
	w.mu.Lock()
	w.closing = true
	controls := w.every
	groups := make([]*Comm, 0, len(w.groups))
	for _, g := range w.groups {
		groups = append(groups, g)
	}
	w.mu.Unlock()
	if flush {
		for _, c := range controls {
			c.end()
		}
		done := make(chan struct{})
		go func() {
			for _, c := range controls {
				c.done.Wait()
			}
			close(done)
		}()
		limit := time.NewTimer(farewell)
		select {
		case <-done:
		case <-limit.C:
		}
		limit.Stop()
	}
	w.cancel()
	var err error
	if w.ln != nil {
		err = w.ln.Close()
	}
	w.mu.Lock()
	all := w.every // one may have come in meanwhile; none does any more
	w.mu.Unlock()
	for _, c := range all {
		c.close()
	}
	for _, c := range all {
		c.done.Wait()
	}
	for _, g := range groups {
		g.release()
	}
	w.mu.Lock()
	for key, conn := range w.parked {
		delete(w.parked, key)
		if conn != nil {
			_ = conn.Close() // nobody will take it
		}
	}
	w.mu.Unlock()
	w.wg.Wait()
	if w.job != nil {
		err = errors.Join(err, w.job.Close())
	}
	return errors.Join(err, w.page.Close())
}
