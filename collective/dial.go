package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	firstBackoff = time.Millisecond
	lastBackoff  = 100 * time.Millisecond
	refusedFor   = 500 * time.Millisecond // a member whose address refuses connections so long is lost
)

// dial connects to a rank and authenticates, and tries again with growing pauses while the address refuses
// connections or belongs to another world, until ctx ends. A member listens as long as it lives: once the world is complete, an address
// that keeps refusing is a lost rank.
func (w *world) dial(ctx context.Context, address string, h hello) (net.Conn, answer, error) {
	h.Dialler, h.Size, h.PID, h.Run = uint32(w.rank), uint32(w.size), uint32(os.Getpid()), runHash(w.cfg.RunID)
	var last error
	var refused time.Time // since when
	for pause := firstBackoff; ; pause = min(2*pause, lastBackoff) {
		conn, a, err := w.dialOnce(ctx, address, h)
		if err == nil {
			return conn, a, nil
		}
		var r *refusal
		if errors.As(err, &r) && !r.retry() {
			return nil, a, fmt.Errorf("connect to rank %d at %s: %w", h.Acceptor, address, err)
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		switch {
		case h.Purpose == forJoin || !errors.Is(err, syscall.ECONNREFUSED):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) >= refusedFor:
			w.publish(event{Kind: eventLost, Subject: int(h.Acceptor), Text: "nobody listens at its address any more"})
			return nil, a, w.peerGoneError(int(h.Acceptor))
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, a, fmt.Errorf("connect to rank %d at %s: %w: %w", h.Acceptor, address, context.Cause(ctx), last)
		}
	}
}

func (w *world) dialOnce(ctx context.Context, address string, h hello) (net.Conn, answer, error) {
	conn, err := w.cfg.Network.Dial(ctx, address)
	if err != nil {
		return nil, answer{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longAgo) })
	limit := handshakeLimit
	if h.Purpose != forJoin { // to a member: it answers when it comes to it, or is lost
		limit += w.liveness
	}
	err = conn.SetDeadline(time.Now().Add(limit))
	var a answer
	h.TLS = w.cfg.TLS.wanted(conn)
	if err == nil && ctx.Err() == nil {
		a, err = dialHandshake(conn, w.cfg.Token, h)
	}
	if err == nil && h.TLS {
		var secure net.Conn
		if secure, err = w.encrypt(ctx, conn, true); err == nil {
			conn = secure
		}
	}
	stop()
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, a, errors.Join(err, conn.Close())
	}
	return conn, a, nil
}

// dialling is the attempt to open the control connection to a peer.
type dialling struct {
	done chan struct{} // closed at its end
	err  error         // of an attempt that failed for good
}

// control returns the control connection to a peer and opens it when there is none. When both
// sides dial at once, the connection dialled by the lower rank survives. The attempt outlives ctx: a connection that the peer has
// admitted already must not be closed, for that would look like a loss.
func (w *world) control(ctx context.Context, peer int) (*control, error) {
	for {
		w.mu.Lock()
		c, d, gone := w.controls[peer], w.dialing[peer], w.roster.gone(peer)
		changed := w.changed
		if c == nil && d == nil && !gone && !w.admitting[peer] && w.ctx.Err() == nil {
			d = &dialling{done: make(chan struct{})}
			w.dialing[peer] = d
			w.wg.Go(func() { w.dialControl(peer, d) })
		}
		w.mu.Unlock()
		switch {
		case c != nil:
			return c, nil
		case gone:
			return nil, w.peerGoneError(peer)
		case d == nil:
			d = &dialling{} // the peer's own connection is on its way, or the world is closing
		}
		select {
		case <-changed:
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to rank %d: %w", peer, context.Cause(ctx))
		case <-w.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// crossedPause is how long a dialler waits for the connection of a peer that dialled as well, before it looks again.
const crossedPause = 10 * time.Millisecond

func (w *world) dialControl(peer int, d *dialling) {
	alive, stop := w.whileThere(w.ctx, peer)
	conn, _, err := w.dial(alive, w.table[peer].Addr, hello{Purpose: forControl, Acceptor: uint32(peer), Epoch: w.epoch})
	gone := alive.Err() != nil
	stop()
	var r *refusal
	switch {
	case err == nil:
		w.addControl(peer, conn)
	case errors.As(err, &r) && (r.status == statusCrossed || r.status == statusDuplicate):
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(crossedPause):
		}
	case w.ctx.Err() != nil:
		d.err = ErrClosed
	case gone:
		d.err = w.peerGoneError(peer)
	default:
		d.err = err
	}
	w.mu.Lock()
	delete(w.dialing, peer)
	w.notify()
	w.mu.Unlock()
	close(d.done)
}

// whileThere returns a context that ends when the peer is lost or has left, and a function that ends the watch.
func (w *world) whileThere(ctx context.Context, peer int) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	w.wg.Go(func() {
		for {
			w.mu.Lock()
			gone, changed := w.roster.gone(peer), w.changed
			w.mu.Unlock()
			if gone {
				cancel()
				return
			}
			select {
			case <-changed:
			case <-done:
				return
			case <-w.ctx.Done():
				return
			}
		}
	})
	return ctx, func() { close(done); cancel() }
}
