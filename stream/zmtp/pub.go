package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// PubConfig is how a publisher treats its subscribers.
type PubConfig struct {
	Queue       int           // messages that may wait for one subscriber before further ones are dropped; 0 is 1000
	Handshake   time.Duration // how long a connection may take to prove that it is a subscriber; 0 is 10 s
	Connections int           // how many subscribers there may be at a time, and how many connections that have yet to prove that they are some; 0 is 256
}

func (c *PubConfig) validate() error {
	if c.Queue < 0 || c.Handshake < 0 || c.Connections < 0 {
		return fmt.Errorf("zmtp: Queue %d, Handshake %v and Connections %d have to be at least 0", c.Queue, c.Handshake, c.Connections)
	}
	if c.Queue == 0 {
		c.Queue = 1000 // as libzmq's high-water mark
	}
	if c.Handshake == 0 {
		c.Handshake = 10 * time.Second
	}
	if c.Connections == 0 {
		c.Connections = 256
	}
	return nil
}

// PubStats count what happened at a publisher.
type PubStats struct {
	Subscribers int    // connected now, past their handshake
	Joined      uint64 // subscribers that there were in all
	Refused     uint64 // connections that turned out to be no subscribers, or were one too many
	Sent        uint64 // messages queued for a subscriber, once for each
	Dropped     uint64 // messages dropped, once for each subscriber that was to have one
}

// Pub is a PUB socket that listens on TCP. Its methods may be called by any goroutine.
type Pub struct {
	cfg      PubConfig
	listener net.Listener
	running  sync.WaitGroup
	first    chan struct{} // closed with the first subscription

	mu     sync.Mutex
	closed bool
	peers  map[*subscriber]struct{} // all connections
	fresh  []*subscriber            // those in their handshake, the oldest first
	stats  PubStats
	heard  bool // first is closed
}

// Listen makes a publisher at a TCP address; port 0 is any free one. ctx bounds the start alone.
func Listen(ctx context.Context, address string, cfg PubConfig) (*Pub, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Pub{cfg: cfg, listener: l, first: make(chan struct{}), peers: map[*subscriber]struct{}{}}
	p.running.Go(p.accept)
	return p, nil
}

// Addr is the address that the publisher listens on.
func (p *Pub) Addr() net.Addr { return p.listener.Addr() }

// Subscribed is closed as soon as there has been a subscription: what is sent from then on is for somebody.
func (p *Pub) Subscribed() <-chan struct{} { return p.first }

// Send queues a message for each subscriber of a prefix of its first frame. It does not wait: whose queue is full loses the message, whole. The frames
// are copied. After Close it does nothing.
func (p *Pub) Send(frames ...[]byte) {
	if len(frames) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	var message []byte // the same bytes for all
	for s := range p.peers {
		if !s.wants(frames[0]) {
			continue
		}
		if message == nil {
			message = appendMessage(nil, frames)
		}
		select {
		case s.queue <- message:
			p.stats.Sent++
		default:
			p.stats.Dropped++
		}
	}
}

// Stats are the counts so far.
func (p *Pub) Stats() PubStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close ends the publisher. Subscribers have until linger is over to take what is queued for them; what they have not taken then counts as dropped. Only the
// first call does anything.
func (p *Pub) Close(linger time.Duration) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	for s := range p.peers {
		if s.joined {
			close(s.queue)
		} else {
			_ = s.conn.Close() // nothing was promised to it
		}
	}
	p.mu.Unlock()
	err := p.listener.Close()
	done := make(chan struct{})
	go func() {
		p.running.Wait()
		close(done)
	}()
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-done:
		return err
	case <-timer.C:
	}
	p.mu.Lock()
	for s := range p.peers {
		p.stats.Dropped += uint64(len(s.queue))
		_ = s.conn.Close()
	}
	p.mu.Unlock()
	<-done
	return err
}

// undelivered counts messages that were being written when the publisher ended. What a subscriber leaves behind that goes by itself is nobody's loss.
func (p *Pub) undelivered(messages int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.stats.Dropped += uint64(messages)
	}
}

// accept takes connections in until the listener is closed. It waits a moment after an error that may pass, such as too many open files.
func (p *Pub) accept() {
	const first, most = 5 * time.Millisecond, time.Second // the latter bounds what Close waits for
	wait := first
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(wait)
			wait = min(2*wait, most)
			continue
		}
		wait = first
		s := &subscriber{pub: p, conn: conn, control: make(chan []byte, 1), prefixes: map[string]int{}}
		if p.enter(s) {
			p.running.Go(s.serve)
		} else {
			_ = conn.Close()
		}
	}
}

// enter notes a connection; false when the publisher is closed. The oldest that is still in its handshake makes room, so that those who say
// nothing keep nobody out.
func (p *Pub) enter(s *subscriber) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if len(p.fresh) == p.cfg.Connections {
		p.stats.Refused++
		_ = p.fresh[0].conn.Close()
		p.fresh = slices.Delete(p.fresh, 0, 1)
	}
	p.peers[s] = struct{}{}
	p.fresh = append(p.fresh, s)
	return true
}

// settled notes that a connection's handshake is over; false when it was over before, as that of one that had to make room. The caller holds mu.
func (p *Pub) settled(s *subscriber) bool {
	i := slices.Index(p.fresh, s)
	if i < 0 {
		return false
	}
	p.fresh = slices.Delete(p.fresh, i, i+1)
	return true
}

// join notes that a connection is a subscriber; false when the publisher is closed or has as many as it may, or the connection had to make room.
func (p *Pub) join(s *subscriber) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.stats.Subscribers == p.cfg.Connections || !p.settled(s) {
		return false
	}
	s.joined, s.queue = true, make(chan []byte, p.cfg.Queue)
	p.stats.Subscribers++
	p.stats.Joined++
	return true
}

// leave forgets a connection. Nothing is queued for it from now on.
func (p *Pub) leave(s *subscriber) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, s)
	switch settled := p.settled(s); {
	case s.joined:
		p.stats.Subscribers--
		if !p.closed {
			close(s.queue)
		}
	case settled && !p.closed:
		p.stats.Refused++
	}
}
