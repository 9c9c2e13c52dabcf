package collective

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// Memory is a Network inside one process, for tests and simulations. It has no limits on connections, a
// bounded buffer per direction, and faults on demand. Under testing/synctest its delays cost no wall time.
type Memory struct {
	latency time.Duration
	jitter  time.Duration
	seed    uint64
	buffer  int

	mu        sync.Mutex
	listeners map[string]*memListener
	next      int
	pairs     uint64
	conns     map[*memConn]string // every open end, with its host
	dead      map[string]bool
	cut       map[string]bool
}

// NewMemory returns a network whose bytes take the given latency from end to end, with room for buffer
// bytes per direction (0 = 64 KiB).
func NewMemory(latency time.Duration, buffer int) *Memory {
	if buffer <= 0 {
		buffer = 64 << 10
	}
	return &Memory{latency: latency, buffer: buffer, listeners: map[string]*memListener{},
		conns: map[*memConn]string{}, dead: map[string]bool{}, cut: map[string]bool{}}
}

// Jitter makes every message take up to most longer, by pseudo-random numbers of the seed: messages of one connection stay in
// order, those of different ones overtake each other. Call it before the first connection.
func (m *Memory) Jitter(seed uint64, most time.Duration) { m.seed, m.jitter = seed, most }

// Host returns the network as seen from the named host.
func (m *Memory) Host(name string) Network { return memHost{m, name} }

// Kill resets every connection of a host and refuses new ones, as a power failure with a reset does.
func (m *Memory) Kill(host string) {
	m.mu.Lock()
	m.dead[host] = true
	var victims []*memConn
	for c, h := range m.conns {
		if h == host {
			victims = append(victims, c)
		}
	}
	m.mu.Unlock()
	for _, c := range victims { // first nothing leaves the host any more, whatever its ranks still do
		c.out.sever()
	}
	for _, c := range victims {
		c.reset()
	}
}

// Cut makes a host silent: its connections stay open, but nothing comes through in either direction.
func (m *Memory) Cut(host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut[host] = true
	for c, h := range m.conns {
		if h == host {
			c.in.stall()
			c.out.stall()
		}
	}
}

type memHost struct {
	m    *Memory
	name string
}

// Listen takes any address; port 0 is replaced by a free one. See Network.
func (h memHost) Listen(_ context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if port == "0" {
		h.m.next++
		port = fmt.Sprint(1<<16 + h.m.next)
	}
	if host == "" {
		host = h.name
	}
	a := memAddr(net.JoinHostPort(host, port))
	if h.m.listeners[string(a)] != nil {
		return nil, &net.OpError{Op: "listen", Net: "memory", Addr: a, Err: syscall.EADDRINUSE}
	}
	l := &memListener{m: h.m, host: h.name, addr: a, queue: make(chan *memConn), done: make(chan struct{})}
	h.m.listeners[string(a)] = l
	return l, nil
}

// Dial connects to a listener. See Network.
func (h memHost) Dial(ctx context.Context, address string) (net.Conn, error) {
	h.m.mu.Lock()
	l := h.m.listeners[address]
	refused := l == nil || h.m.dead[h.name] || h.m.dead[l.host]
	h.m.mu.Unlock()
	if refused {
		return nil, &net.OpError{Op: "dial", Net: "memory", Addr: memAddr(address), Err: syscall.ECONNREFUSED}
	}
	near, far := h.m.pair(memAddr(net.JoinHostPort(h.name, "0")), l.addr)
	h.m.mu.Lock()
	h.m.conns[near], h.m.conns[far] = h.name, l.host
	if h.m.cut[h.name] || h.m.cut[l.host] {
		near.in.stall()
		near.out.stall()
	}
	h.m.mu.Unlock()
	select {
	case l.queue <- far:
		return near, nil
	case <-l.done:
		err := errors.Join(near.Close(), far.Close())
		return nil, errors.Join(&net.OpError{Op: "dial", Net: "memory", Addr: l.addr, Err: syscall.ECONNREFUSED}, err)
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), near.Close(), far.Close())
	}
}

// pair is the two ends of a new connection.
func (m *Memory) pair(local, remote memAddr) (near, far *memConn) {
	m.mu.Lock()
	m.pairs++
	ab, ba := newMemPipe(m, 2*m.pairs), newMemPipe(m, 2*m.pairs+1)
	m.mu.Unlock()
	return &memConn{m: m, in: ba, out: ab, local: local, remote: remote}, &memConn{m: m, in: ab, out: ba, local: remote, remote: local}
}

type memAddr string

// Network is "memory".
func (memAddr) Network() string { return "memory" }

// String is host:port.
func (a memAddr) String() string { return string(a) }

type memListener struct {
	m     *Memory
	host  string
	addr  memAddr
	queue chan *memConn
	once  sync.Once
	done  chan struct{}
}

// Accept waits for a dialler. See net.Listener.
func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close refuses further diallers. See net.Listener.
func (l *memListener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.m.mu.Lock()
		defer l.m.mu.Unlock()
		delete(l.m.listeners, string(l.addr))
	})
	return nil
}

// Addr is the address to dial. See net.Listener.
func (l *memListener) Addr() net.Addr { return l.addr }

// memConn is one end of a connection; it is a stream as well as a net.Conn.
type memConn struct {
	m             *Memory
	in, out       *memPipe
	local, remote memAddr

	mu     sync.Mutex
	rd, wd time.Time // deadlines
	timers [2]*time.Timer
}

// tryRead: see stream.
func (c *memConn) tryRead(p []byte) (int, error) { return c.in.read(p) }

// tryWrite: see stream.
func (c *memConn) tryWrite(p []byte) (int, error) { return c.out.write(p) }

// Read waits for bytes. See net.Conn.
func (c *memConn) Read(p []byte) (int, error) {
	return c.in.wait(func() (int, error) { return c.in.read(p) }, func() time.Time { return c.deadline(false) })
}

// Write waits until all of p is buffered. See net.Conn.
func (c *memConn) Write(p []byte) (int, error) {
	for n := 0; ; {
		k, err := c.writeWait(p[n:])
		n += k
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

func (c *memConn) readWait(p []byte) (int, error) { return c.Read(p) }

func (c *memConn) writeWait(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return c.out.wait(func() (int, error) { return c.out.write(p) }, func() time.Time { return c.deadline(true) })
}

func (c *memConn) bothWait(readable stream, until time.Time) error {
	r, ok := readable.(*memConn)
	if !ok {
		return errors.New("collective: two kinds of connections in one group")
	}
	a, b := r.in.changes(), c.out.changes()
	if r.in.ready() || c.out.room() {
		return nil
	}
	d := 10 * time.Millisecond
	if !until.IsZero() {
		d = min(d, time.Until(until))
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-a:
	case <-b:
	case <-t.C:
	}
	return nil
}

func (c *memConn) arm(until time.Time) error { return c.SetDeadline(until) }

// wake: see stream. Setting a deadline of an in-memory connection cannot fail.
func (c *memConn) wake() { _ = c.SetDeadline(longAgo) }

func (c *memConn) deadline(write bool) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if write {
		return c.wd
	}
	return c.rd
}

// SetDeadline sets both deadlines. See net.Conn.
func (c *memConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline: see net.Conn.
func (c *memConn) SetReadDeadline(t time.Time) error { c.setDeadline(&c.rd, 0, t, c.in); return nil }

// SetWriteDeadline: see net.Conn.
func (c *memConn) SetWriteDeadline(t time.Time) error { c.setDeadline(&c.wd, 1, t, c.out); return nil }

func (c *memConn) setDeadline(d *time.Time, timer int, t time.Time, p *memPipe) {
	c.mu.Lock()
	*d = t
	if c.timers[timer] != nil {
		c.timers[timer].Stop()
		c.timers[timer] = nil
	}
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		c.timers[timer] = time.AfterFunc(wait, p.notify)
	}
	c.mu.Unlock()
	p.notify()
}

// Close ends both directions; what was written stays readable. See net.Conn.
func (c *memConn) Close() error {
	c.m.mu.Lock()
	delete(c.m.conns, c)
	c.m.mu.Unlock()
	c.out.end(io.EOF, syscall.EPIPE)
	c.in.leave()
	return c.SetDeadline(time.Time{})
}

// CloseWrite ends the outgoing direction only, as a TCP connection's does.
func (c *memConn) CloseWrite() error { c.out.end(io.EOF, net.ErrClosed); return nil }

func (c *memConn) reset() {
	c.out.end(syscall.ECONNRESET, syscall.ECONNRESET)
	c.in.end(syscall.ECONNRESET, syscall.ECONNRESET)
}

// LocalAddr: see net.Conn.
func (c *memConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr: see net.Conn.
func (c *memConn) RemoteAddr() net.Addr { return c.remote }
