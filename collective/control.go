package collective

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// control is the control connection to one peer: a reader goroutine that hands messages to the world,
// and a writer goroutine that sends what is queued, long messages a chunk at a time in turn.
type control struct {
	w    *world
	peer int // world rank
	conn net.Conn
	pack int // longer bodies are packed; 0 = none

	lastRead  atomic.Int64 // Unix ns
	lastWrite atomic.Int64

	mu     sync.Mutex
	cond   sync.Cond
	urgent []*outgoing // beats, events, cancels, credits: before everything else, in order
	queue  []*outgoing // calls and replies, round robin
	ending bool        // write what is queued, then half-close
	closed bool
	done   sync.WaitGroup
}

// outgoing is a message on its way.
type outgoing struct {
	typ  frameType
	id   uint64
	body []byte
	sent int

	packed bool
}

func newControl(w *world, peer int, conn net.Conn) *control {
	c := &control{w: w, peer: peer, conn: conn}
	if !sameHost(conn) {
		c.pack = w.cfg.Thresholds.Pack
	}
	c.cond.L = &c.mu
	now := time.Now().UnixNano()
	c.lastRead.Store(now)
	c.lastWrite.Store(now)
	return c
}

func (c *control) start() {
	c.done.Add(2)
	go c.readLoop()
	go c.writeLoop()
}

// send queues a message; it never blocks. A closed connection drops it: who needs an answer learns
// from the world that the peer is lost.
func (c *control) send(typ frameType, id uint64, body []byte) {
	o := &outgoing{typ: typ, id: id, body: body}
	if c.pack > 0 && len(body) > c.pack {
		if b := pack(body); b != nil {
			o.body, o.packed = b, true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch typ {
	case frameBeat, frameEvent, frameCancel, frameCredit:
		c.urgent = append(c.urgent, o)
	default:
		c.queue = append(c.queue, o)
	}
	c.cond.Signal()
}

// beat sends a sign of life unless something is being sent anyway.
func (c *control) beat() {
	c.mu.Lock()
	idle := len(c.urgent) == 0 && len(c.queue) == 0
	c.mu.Unlock()
	if idle {
		c.send(frameBeat, 0, nil)
	}
}

func (c *control) writeLoop() {
	defer c.done.Done()
	buf := make([]byte, 0, frameHeader)
	for {
		c.mu.Lock()
		for len(c.urgent) == 0 && len(c.queue) == 0 && !c.ending && !c.closed {
			c.cond.Wait()
		}
		buf = buf[:0]
		var long *outgoing // sent in part
		for len(buf) < maxChunk && len(c.urgent) > 0 {
			buf = c.urgent[0].appendFrame(buf)
			c.urgent = c.urgent[1:]
		}
		if len(buf) == 0 && len(c.queue) > 0 {
			long, c.queue = c.queue[0], c.queue[1:]
			buf = long.appendFrame(buf)
		}
		over := c.closed || len(buf) == 0 // closed, or ending and all is sent
		half := !c.closed
		c.mu.Unlock()
		if over {
			if h, ok := c.conn.(interface{ CloseWrite() error }); ok && half {
				_ = h.CloseWrite() // the reader sees a broken connection as well
			}
			return
		}
		if _, err := c.conn.Write(buf); err != nil {
			return // the reader learns it too
		}
		c.lastWrite.Store(time.Now().UnixNano())
		if long != nil && long.sent < len(long.body) {
			c.mu.Lock()
			c.queue = append(c.queue, long)
			c.mu.Unlock()
		}
	}
}

// appendFrame appends the next frame of the message.
func (o *outgoing) appendFrame(b []byte) []byte {
	chunk := o.body[o.sent:min(o.sent+maxChunk, len(o.body))]
	var header [frameHeader]byte
	frame{Type: o.typ, Packed: o.packed, Len: uint32(len(chunk)), ID: o.id, Total: uint64(len(o.body))}.encode(header[:])
	o.sent += len(chunk)
	return append(append(b, header[:]...), chunk...)
}

func (c *control) readLoop() {
	defer c.done.Done()
	err := c.read()
	c.w.controlEnded(c, err)
}

func (c *control) read() error {
	r := bufio.NewReaderSize(c.conn, 4<<10)
	var header [frameHeader]byte
	var payload []byte
	var parts assembler
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return err
		}
		f, err := decodeFrame(header[:], c.w.cfg.MaxMessage+maxMethod+64)
		if err != nil {
			return err
		}
		if cap(payload) < int(f.Len) {
			payload = make([]byte, f.Len)
		}
		payload = payload[:f.Len]
		if _, err := io.ReadFull(r, payload); err != nil {
			return err
		}
		c.lastRead.Store(time.Now().UnixNano())
		if f.Type == frameBeat {
			continue
		}
		msg, done, err := parts.add(f, payload)
		if err != nil {
			return err
		}
		if done && f.Packed {
			if msg, err = unpack(msg, c.w.cfg.MaxMessage+maxMethod+64); err != nil {
				return err
			}
		}
		if done {
			if err := c.w.dispatch(c, f, msg); err != nil {
				return err
			}
		}
	}
}

// end sends what is queued and half-closes.
func (c *control) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	c.cond.Signal()
}

// close ends both goroutines at once; it does not wait for them.
func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.cond.Signal()
		_ = c.conn.Close() // nothing is lost that anybody waits for
	}
}
