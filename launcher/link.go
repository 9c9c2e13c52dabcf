package launcher

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A link is the one connection between the head of a job and the agent of a node, authenticated before it comes here. It
// carries JSON messages, heartbeats, and any number of flows: byte streams in one direction each, every one of which holds at most
// flowWindow bytes on its way, so that a stream that nobody takes holds up no other and no message. Messages go before data, so that
// neither do streams that fill a slow network; but what a rank says on its standard error, which its end is explained
// with, keeps its place among them.
//
// A frame is its kind (1 byte), the flow (4 bytes, 0 but for data and credit), a length (4 bytes), all little endian, and
// as many bytes; a credit has its number where the length stands and no bytes.

// Kinds of frames.
const (
	frameMessage byte = 1 + iota
	frameData         // of a flow; no bytes are its end
	frameCredit       // so many bytes of a flow were taken; 0: nothing more is wanted
	frameBeat
)

// Limits of a link.
const (
	frameHead  = 9
	maxMessage = 64 << 20  // bytes of JSON: the plan of a node with thousands of ranks
	flowWindow = 256 << 10 // bytes
	flowChunk  = 32 << 10  // bytes of one data frame, at most
	maxFlows   = 1 << 20
)

// Times of a link.
const (
	beatInterval = 500 * time.Millisecond
	// silence is how long the other side may say nothing: less than ranks wait for each other, so that a lost node is known as
	// the cause before they fail.
	silence = 4 * time.Second
	// starved is how late the own clock may be before it is this side that did not run.
	starved = 2 * time.Second
)

// errSilent says that the other side says nothing any more, though its connection is not closed.
var errSilent = fmt.Errorf("nothing came from it for %v", silence)

// link is one end. Its methods may be called at once; none waits for the network but pump and what drain starts.
type link struct {
	conn net.Conn

	mu      sync.Mutex
	changed sync.Cond // something below did
	urgent  [][]byte  // frames to write
	waiting [][]byte  // frames to write when none is urgent
	writing bool      // earlier ones are being written
	credit  map[uint32]int
	unwant  map[uint32]bool // flows that the other side does not want any more
	coming  map[uint32]*arriving
	heard   time.Time
	patient bool          // silence is no sign of a loss: the other side was stopped by its terminal
	err     error         // the end, and why
	gone    chan struct{} // closed then

	done sync.WaitGroup
}

// arriving is a flow that comes in.
type arriving struct {
	chunks [][]byte
	size   int // of these
	over   bool
	closed bool // its taker wants no more
}

// newLink starts a link. message gets every message, one after the other; what it does not return from holds everything up. It
// is called with nil once, when the link has ended: then ended says why.
func newLink(conn net.Conn, message func(text []byte)) *link {
	l := &link{conn: conn, credit: map[uint32]int{}, unwant: map[uint32]bool{}, coming: map[uint32]*arriving{}, heard: time.Now(), gone: make(chan struct{})}
	l.changed.L = &l.mu
	holdBack(conn)
	l.done.Go(l.write)
	l.done.Go(l.beat)
	l.done.Go(func() {
		l.end(l.read(message))
		message(nil)
	})
	return l
}

// end ends the link; the first reason counts.
func (l *link) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.gone)
		_ = l.conn.Close() // what it could say is that it was closed before
	}
	l.changed.Broadcast()
}

// ended is why the link has ended; nil while it lives.
func (l *link) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// errClosed says that this side ended a link.
var errClosed = errors.New("the link was closed here")

// close ends the link at once and waits for what it started.
func (l *link) close() {
	l.end(errClosed)
	l.done.Wait()
}

// farewell sends a last message, waits until the other side has closed the connection because of it, and closes this
// end.
func (l *link) farewell(m any) {
	if l.send(m) == nil {
		limit := time.NewTimer(silence)
		defer limit.Stop()
		select {
		case <-l.gone:
		case <-limit.C:
		}
	}
	l.close()
}

// send queues a message. On a link that has ended it is dropped, which whoever reads messages is told.
func (l *link) send(m any) error { return l.say(m, &l.urgent) }

// sendLast queues a message behind all data.
func (l *link) sendLast(m any) error { return l.say(m, &l.waiting) }

func (l *link) say(m any, queue *[][]byte) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("launcher: a message of %d bytes, want at most %d", len(text), maxMessage)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(queue, frameMessage, 0, len(text), text)
	return nil
}

// queue adds a frame that is no message; l.mu is held.
func (l *link) queue(kind byte, flow uint32, n int, body []byte) {
	queue := &l.urgent
	if kind == frameData && flow&3 != stderrFlow {
		queue = &l.waiting
	}
	l.add(queue, kind, flow, n, body)
}

// add adds a frame to a queue; l.mu is held.
func (l *link) add(queue *[][]byte, kind byte, flow uint32, n int, body []byte) {
	if l.err != nil {
		return
	}
	frame := make([]byte, frameHead, frameHead+len(body))
	frame[0] = kind
	binary.LittleEndian.PutUint32(frame[1:], flow)
	binary.LittleEndian.PutUint32(frame[5:], uint32(n))
	*queue = append(*queue, append(frame, body...))
	l.changed.Broadcast()
}

// batch is what is to be written next: what is urgent, and a little of the rest; l.mu is held.
func (l *link) batch() net.Buffers {
	frames, size := l.urgent, 0
	l.urgent = nil
	for len(l.waiting) > 0 && size < 2*flowChunk {
		size += len(l.waiting[0])
		frames, l.waiting = append(frames, l.waiting[0]), l.waiting[1:]
	}
	return frames
}

// pending reports whether frames wait; l.mu is held.
func (l *link) pending() bool { return len(l.urgent)+len(l.waiting) > 0 }

// write writes what is queued.
func (l *link) write() {
	for {
		l.mu.Lock()
		for !l.pending() && l.err == nil {
			l.changed.Wait()
		}
		frames, over := l.batch(), l.err != nil
		l.writing = !over
		l.mu.Unlock()
		if over {
			return
		}
		if _, err := frames.WriteTo(l.conn); err != nil {
			l.end(err)
			return
		}
		l.mu.Lock()
		l.writing = false
		l.changed.Broadcast()
		l.mu.Unlock()
	}
}

// flush waits until what was sent before is written.
func (l *link) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for (l.pending() || l.writing) && l.err == nil {
		l.changed.Wait()
	}
}

// beat shows the other side that this one lives, and looks whether that one does.
func (l *link) beat() {
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	last := time.Now()
	for {
		l.mu.Lock()
		over := l.err != nil
		now := time.Now()
		if now.Sub(last) > starved || l.patient { // not the other side's fault
			l.heard = now
		}
		last = now
		silent := now.Sub(l.heard) > silence
		if !l.pending() {
			l.queue(frameBeat, 0, 0, nil)
		}
		l.mu.Unlock()
		if over {
			return
		}
		if silent {
			l.end(errSilent)
			return
		}
		select {
		case <-ticker.C:
		case <-l.gone:
		}
	}
}

// quiet is how long the other side has said nothing.
func (l *link) quiet() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.heard)
}

// bear makes the link bear silence, or no longer.
func (l *link) bear(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.patient, l.heard = yes, time.Now()
}

// read takes what comes until the link ends.
func (l *link) read(message func([]byte)) error {
	var head [frameHead]byte
	for {
		if _, err := io.ReadFull(l.conn, head[:]); err != nil {
			return err
		}
		kind, flow, n := head[0], binary.LittleEndian.Uint32(head[1:]), int(binary.LittleEndian.Uint32(head[5:]))
		l.mu.Lock()
		l.heard = time.Now()
		l.mu.Unlock()
		switch {
		case kind == frameBeat && n == 0:
		case kind == frameCredit && n <= flowWindow:
			l.credited(flow, n)
		case kind == frameData && n <= flowChunk:
			chunk := make([]byte, n)
			if _, err := io.ReadFull(l.conn, chunk); err != nil {
				return err
			}
			if err := l.arrived(flow, chunk); err != nil {
				return err
			}
		case kind == frameMessage && n <= maxMessage:
			text, err := readMessage(l.conn, n)
			if err != nil {
				return err
			}
			message(text)
		default:
			return fmt.Errorf("launcher: frame of kind %d with length %d", kind, n)
		}
	}
}

// readMessage reads n bytes, and takes memory for them only as they come.
func readMessage(r io.Reader, n int) ([]byte, error) {
	text := make([]byte, 0, min(n, flowChunk))
	for len(text) < n {
		if len(text) == cap(text) {
			text = append(make([]byte, 0, min(n, 2*cap(text))), text...)
		}
		k, err := io.ReadFull(r, text[len(text):cap(text)])
		text = text[:len(text)+k]
		if err != nil {
			return nil, err
		}
	}
	return text, nil
}
