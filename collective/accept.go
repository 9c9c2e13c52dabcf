package collective

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	maxUnauthenticated = 128             // connections that have not proven anything yet
	handshakeLimit     = 5 * time.Second // from accept to the end of the handshake
)

// acceptLoop authenticates what connects, until the listener is closed.
func (w *world) acceptLoop() {
	var unproven waiting
	for {
		conn, err := w.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || w.ctx.Err() != nil {
				return
			}
			w.cfg.Logger.Warn("accept", "rank", w.rank, "err", err)
			select { // out of descriptors, most likely: let others finish
			case <-time.After(10 * time.Millisecond):
				continue
			case <-w.ctx.Done():
				return
			}
		}
		unproven.add(conn)
		w.wg.Go(func() {
			stop := closeOnDone(w, conn)
			h, secure, err := w.authenticate(conn)
			stop()
			unproven.remove(conn)
			if err != nil {
				w.refused.Add(1)
				w.cfg.Logger.Debug("connection refused", "rank", w.rank, "from", conn.RemoteAddr().String(), "err", err)
				_ = conn.Close()
				return
			}
			w.admitted(h, secure)
		})
	}
}

// waiting is the connections that have not proven anything yet, in the order in which they came. When there are too many the first is
// closed: whoever has the token needs a moment only, so a flood of silent connections pushes itself out.
type waiting struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (q *waiting) add(conn net.Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.conns) == maxUnauthenticated {
		_ = q.conns[0].Close() // its own goroutine ends with that
		q.conns = q.conns[1:]
	}
	q.conns = append(q.conns, conn)
}

func (q *waiting) remove(conn net.Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conns = slices.DeleteFunc(q.conns, func(c net.Conn) bool { return c == conn })
}

// closeOnDone closes the connection when the world ends before stop is called.
func closeOnDone(w *world, conn net.Conn) (stop func()) {
	done := make(chan struct{})
	w.wg.Go(func() {
		select {
		case <-w.ctx.Done():
			_ = conn.Close()
		case <-done:
		}
	})
	return func() { close(done) }
}

// authenticate returns the connection to go on with, which is another one under TLS.
func (w *world) authenticate(conn net.Conn) (hello, net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return hello{}, nil, err
	}
	admitted := false
	h, err := acceptHandshake(conn, w.cfg.Token, w.judge, func(h hello) status {
		s := w.admit(h)
		admitted = s == statusOK
		return s
	})
	secure := conn
	if err == nil && h.TLS {
		secure, err = w.encrypt(w.ctx, conn, false)
	}
	if err == nil {
		return h, secure, conn.SetDeadline(time.Time{})
	}
	if admitted { // its place is free again
		w.mu.Lock()
		switch h.Purpose {
		case forJoin:
			delete(w.joined, int(h.Dialler))
		case forControl:
			delete(w.admitting, int(h.Dialler))
			w.notify()
		case forData:
			delete(w.parked, linkKey{h.Group, int(h.Dialler)})
			w.notify()
		}
		w.mu.Unlock()
	}
	return h, nil, err
}

// judge answers a hello whose sender has proven nothing yet. It tells nothing but what the dialler needs to go elsewhere.
func (w *world) judge(h hello) answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := answer{PID: uint32(os.Getpid()), Epoch: w.epoch}
	switch {
	case h.Run != runHash(w.cfg.RunID):
		a.Status = statusRun
	case h.Purpose == forPeer:
		a.Status = statusMember
	case h.Purpose != forJoin && h.Epoch != w.epoch:
		a.Status = statusEpoch
	case h.Purpose == forJoin && !w.joining:
		a.Status = statusBusy
	case int(h.Size) != w.size || int(h.Acceptor) != w.rank || int(h.Dialler) >= w.size || int(h.Dialler) == w.rank:
		a.Status = statusMember
	case w.cfg.TLS == TLSOn && !h.TLS || w.cfg.TLS == TLSOff && h.TLS:
		a.Status = statusTLS
	case h.Purpose == forJoin && w.joined[int(h.Dialler)] != nil:
		a.Status, a.PID = statusDuplicate, w.joined[int(h.Dialler)].pid
	}
	return a
}

// admit decides about an authenticated hello, and reserves its place.
func (w *world) admit(h hello) status {
	w.mu.Lock()
	defer w.mu.Unlock()
	peer := int(h.Dialler)
	switch h.Purpose {
	case forJoin:
		if !w.joining {
			return statusBusy
		}
		if w.joined[peer] != nil {
			return statusDuplicate
		}
		w.joined[peer] = &joiner{pid: h.PID}
	case forControl:
		if w.closing && w.ctx.Err() != nil {
			return statusEpoch
		}
		if w.controls[peer] != nil || w.admitting[peer] {
			return statusDuplicate
		}
		if w.dialing[peer] != nil && w.rank < peer {
			return statusCrossed
		}
		w.admitting[peer] = true
	case forData:
		if _, taken := w.parked[linkKey{h.Group, peer}]; taken || len(w.parked) >= 4*w.size+64 {
			return statusDuplicate
		}
		if g := w.groups[h.Group]; g != nil && g.linked(peer) {
			return statusDuplicate
		}
		w.parked[linkKey{h.Group, peer}] = nil
	}
	return statusOK
}

// admitted takes an authenticated connection over.
func (w *world) admitted(h hello, conn net.Conn) {
	peer := int(h.Dialler)
	switch h.Purpose {
	case forJoin:
		w.receiveJoiner(peer, conn)
	case forControl:
		w.addControl(peer, conn)
	case forData:
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ctx.Err() != nil {
			_ = conn.Close()
			return
		}
		w.parked[linkKey{h.Group, peer}] = conn
		w.notify()
	}
}

// addControl starts a control connection and tells it what happened before it came up.
func (w *world) addControl(peer int, conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.admitting, peer)
	if w.controls[peer] != nil || w.ctx.Err() != nil {
		_ = conn.Close()
		return
	}
	c := newControl(w, peer, conn)
	for _, e := range w.roster.log {
		if body, err := encodeValue(e); err == nil {
			c.send(frameEvent, 0, body)
		}
	}
	w.controls[peer] = c
	w.every = append(w.every, c)
	c.start()
	w.notify()
}
