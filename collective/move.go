package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

// The methods of transport. A Comm is the transport of its own algorithms; groupTransport keeps them out of its public API.
type groupTransport struct{ *Comm }

// Send: see transport.
func (t groupTransport) Send(peer int, b []byte) error {
	dst, err := t.link(peer)
	if err != nil {
		return err
	}
	return t.move(dst, b, nil, nil, false)
}

// Recv: see transport.
func (t groupTransport) Recv(peer int, b []byte) error {
	src, err := t.link(peer)
	if err != nil {
		return err
	}
	return t.move(nil, nil, src, b, false)
}

// RecvAny: see transport.
func (t groupTransport) RecvAny(peer int) ([]byte, error) {
	src, err := t.link(peer)
	if err != nil {
		return nil, err
	}
	if err := t.move(nil, nil, src, nil, true); err != nil {
		return nil, err
	}
	return src.take(), nil
}

// SendRecv: see transport.
func (t groupTransport) SendRecv(dst int, send []byte, src int, recv []byte) error {
	d, s, err := t.pair(dst, src)
	if err != nil {
		return err
	}
	return t.move(d, send, s, recv, false)
}

// SendRecvAny: see transport.
func (t groupTransport) SendRecvAny(dst int, send []byte, src int) ([]byte, error) {
	d, s, err := t.pair(dst, src)
	if err != nil {
		return nil, err
	}
	if err := t.move(d, send, s, nil, true); err != nil {
		return nil, err
	}
	return s.take(), nil
}

func (t groupTransport) pair(dst, src int) (d, s *link, err error) {
	if d, err = t.link(dst); err == nil {
		s, err = t.link(src)
	}
	return d, s, err
}

const (
	clockEvery  = 4  // passes between looks at the clock
	idleAfter   = 10 // a wait longer than this many spin budgets means that the peers are at work: sleep at once next time
	reasonLimit = 500 * time.Millisecond
)

// move sends b on dst and receives a message from src, either of which may be nil, until both are done. The calling
// goroutine reads and writes the sockets itself: it polls for Config.Spin, then it sleeps in the poller.
func (c *Comm) move(dst *link, b []byte, src *link, recv []byte, any bool) error {
	o := &c.op
	if dst != nil {
		dst.startSend(o.signed[:], b)
		o.bytes += int64(len(b))
	}
	if src != nil {
		src.startRecv(recv, any)
	}
	spin := c.w.cfg.Spin
	if o.idle {
		spin = 0
	}
	var since time.Time // of the last progress
	for pass := 0; ; pass++ {
		moved := false
		if dst != nil && dst.sending {
			before := len(dst.staged) + len(dst.rest)
			if err := dst.push(false); err != nil && err != errAgain && !isWake(err) {
				return c.linkFailed(dst, err)
			}
			moved = len(dst.staged)+len(dst.rest) != before
		}
		if src != nil && src.receiving {
			before := src.got + src.w
			if err := src.pull(false, o.signed[:], c.w.cfg.MaxMessage); err != nil && err != errAgain && !isWake(err) {
				return c.linkFailed(src, err)
			}
			moved = moved || src.got+src.w != before
		}
		sending, receiving := dst != nil && dst.sending, src != nil && src.receiving
		if !sending && !receiving {
			return nil
		}
		waited := dst
		if receiving {
			waited = src
		}
		if c.alert.Load() {
			c.alert.Store(false)
			if err := c.interrupted(waited.world, time.Now()); err != nil {
				return err
			}
		}
		if moved {
			pass, since = 0, time.Time{}
			continue
		}
		if spin > 0 && pass%clockEvery != 0 {
			if c.w.yielding || pass%16 == 15 {
				yield()
				o.yields++
			}
			continue
		}
		now := time.Now()
		if !o.deadline.IsZero() && !now.Before(o.deadline) {
			return c.interrupted(waited.world, now)
		}
		if since.IsZero() {
			since = now
		}
		if now.Sub(since) < spin {
			continue
		}
		if err := c.park(sending, dst, receiving, src, now); err != nil {
			return err
		}
		o.idle = time.Since(now) > idleAfter*c.w.cfg.Spin
		since = time.Time{}
		spin = c.w.cfg.Spin
	}
}

// park sleeps until something can move, the operation is interrupted, or it is time to ask what the peer is doing.
func (c *Comm) park(sending bool, dst *link, receiving bool, src *link, now time.Time) error {
	o := &c.op
	waited := dst
	if receiving {
		waited = src
	}
	c.w.page.Waiting(o.slot, waited.world)
	until := now.Add(probeAfter)
	if !o.deadline.IsZero() && o.deadline.Before(until) {
		until = o.deadline
	}
	if err := waited.s.arm(until); err != nil {
		return c.linkFailed(waited, err)
	}
	if err := c.interrupted(waited.world, time.Now()); err != nil {
		return err
	}
	var err error
	switch {
	case sending && receiving:
		err = dst.s.bothWait(src.s, until)
	case sending:
		err = dst.push(true)
	default:
		err = src.pull(true, o.signed[:], c.w.cfg.MaxMessage)
	}
	if aerr := waited.s.arm(time.Time{}); err == nil {
		err = aerr
	}
	if err != nil && err != errAgain && !isWake(err) {
		return c.linkFailed(waited, err)
	}
	if time.Since(now) >= probeAfter {
		return c.probe(waited.world)
	}
	return nil
}

// interrupted returns why the operation cannot go on now, nil when it can. waited is the world rank that it waits for, -1 = none.
func (c *Comm) interrupted(waited int, now time.Time) error {
	if err := c.broken.Load(); err != nil {
		return err
	}
	o := &c.op
	if err := o.ctx.Err(); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return c.timedOut(waited, err)
		}
		return &Error{Kind: state.KindAborted, Blamed: -1, Text: "context ended", Err: context.Cause(o.ctx)}
	}
	if !o.deadline.IsZero() && !now.Before(o.deadline) {
		var cause error
		if o.ctxEnds {
			cause = context.DeadlineExceeded
		}
		return c.timedOut(waited, cause)
	}
	c.mu.Lock()
	leaver, last := c.leaver, c.leaveSeq
	if o.sig.Op == opSend {
		leaver = -1
		if c.leavers[waited] {
			leaver = waited
		}
	} else if leaver >= 0 && o.sig.Seq <= last {
		leaver = -1
	}
	c.mu.Unlock()
	if leaver >= 0 && !(o.sig.Op == opSend && c.stillReadable(waited)) {
		text := fmt.Sprintf("left normally before %v", o.sig.Op)
		if o.sig.Seq != 0 {
			text += fmt.Sprintf(" #%d", o.sig.Seq)
		}
		return &Error{Kind: state.KindPeerLost, Blamed: leaver, Text: fmt.Sprintf("rank %d %s", leaver, text), Missing: []Missing{{leaver, text}}}
	}
	return nil
}

// stillReadable reports whether a message that the peer sent before it left may still be on its way: while its
// connection is not at an end, also one that no operation has taken yet.
func (c *Comm) stillReadable(world int) bool {
	c.w.mu.Lock()
	_, parked := c.w.parked[linkKey{c.id, world}]
	c.w.mu.Unlock()
	return parked || c.linked(world)
}

// linkFailed explains a broken data connection. The control connections know why; they are given a moment.
func (c *Comm) linkFailed(l *link, err error) error {
	var m *mismatch
	if errors.As(err, &m) {
		return &Error{Kind: state.KindMismatch, Blamed: m.peer, Text: m.Error()}
	}
	t := time.NewTimer(reasonLimit)
	defer t.Stop()
	for {
		c.w.mu.Lock()
		changed := c.w.changed
		_, left := c.w.roster.left[l.world]
		c.w.mu.Unlock()
		if b := c.broken.Load(); b != nil {
			return b
		}
		if left {
			return &Error{Kind: state.KindPeerLost, Blamed: l.world, Text: fmt.Sprintf("rank %d left normally", l.world),
				Missing: []Missing{{l.world, "left normally"}}}
		}
		select {
		case <-changed:
			continue
		case <-c.life.Done():
			continue
		case <-t.C:
		}
		text := "closed this group's connection"
		if errors.Is(err, net.ErrClosed) {
			text = "connection closed here"
		}
		return &Error{Kind: state.KindPeerLost, Blamed: l.world, Text: fmt.Sprintf("rank %d %s", l.world, text), Err: err,
			Missing: []Missing{{l.world, text}}}
	}
}

// link returns the data connection to a peer, opened at first use: the higher world rank dials, the lower waits.
func (c *Comm) link(peer int) (*link, error) {
	if l := c.links[peer]; l != nil {
		return l, nil
	}
	o, world := &c.op, c.members[peer]
	if err := c.interrupted(world, time.Now()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(o.ctx)
	if !o.deadline.IsZero() {
		ctx, cancel = context.WithDeadline(o.ctx, o.deadline)
	}
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	c.w.page.Waiting(o.slot, world)
	var conn net.Conn
	var err error
	if c.w.rank > world {
		conn, _, err = c.w.dial(ctx, c.w.table[world].Addr, hello{Purpose: forData, Acceptor: uint32(world), Epoch: c.w.epoch, Group: c.id})
	} else {
		conn, err = c.claim(ctx, world)
	}
	if err != nil {
		if ierr := c.interrupted(world, time.Now()); ierr != nil {
			return nil, ierr
		}
		if ctx.Err() != nil { // a moment before the operation's own clock
			return nil, c.timedOut(world, err)
		}
		return nil, err
	}
	s, err := c.w.newStream(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l := &link{peer: peer, world: world, s: s}
	c.mu.Lock()
	c.links[peer] = l
	c.mu.Unlock()
	return l, nil
}

// claim waits until the peer's connection for this group is in the accept table.
func (c *Comm) claim(ctx context.Context, world int) (net.Conn, error) {
	key := linkKey{c.id, world}
	probe := time.NewTimer(probeAfter)
	defer probe.Stop()
	for {
		c.w.mu.Lock()
		conn := c.w.parked[key]
		if conn != nil {
			delete(c.w.parked, key)
		}
		changed := c.w.changed
		c.w.mu.Unlock()
		if conn != nil {
			return conn, nil
		}
		if err := c.interrupted(world, time.Now()); err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for rank %d to connect: %w", world, context.Cause(ctx))
		case <-probe.C:
			if err := c.probe(world); err != nil {
				return nil, err
			}
			probe.Reset(probeAfter)
		}
	}
}
