package collective

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/fpmrun/fpmrun/collective/state"
)

// streamWindow is how many bytes of a streamed answer may be on their way or unread: a slow reader holds its writer back.
const streamWindow = 1 << 20

// Stream runs a method on a rank of the group whose handler answers by Request.Write, and returns what it writes. Read ends with io.EOF
// when the handler returns nil, with its error otherwise, or with that of ctx, which bounds the whole answer. Close gives the call
// up: the handler's context ends. What a handler returns as its value is not looked at.
func (c *Comm) Stream(ctx context.Context, rank int, method string, args any) (io.ReadCloser, error) {
	if rank < 0 || rank >= len(c.members) {
		return nil, invalid("call to rank %d of a group of %d", rank, len(c.members))
	}
	peer, t := c.members[rank], &c.w.rpc
	body, err := encodeValue(args)
	if err != nil {
		return nil, t.callError(peer, method, err)
	}
	ctx, cancel := c.bounded(ctx)
	in := &inflow{changed: make(chan struct{}, 1)}
	s := t.start(ctx, peer, method, c.id, body, in)
	if s.err != nil {
		cancel()
		return nil, t.await(ctx, s, method).Err
	}
	return &streamReader{t: t, s: s, ctx: ctx, cancel: cancel, method: method, in: in}, nil
}

// inflow is what has come of a streamed answer and was not read yet.
type inflow struct {
	mu      sync.Mutex
	chunks  [][]byte
	size    int
	changed chan struct{} // has room for one
}

func (f *inflow) put(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size+len(b) > streamWindow {
		return fmt.Errorf("%w: streamed answer beyond the window of %d bytes", ErrMalformed, streamWindow)
	}
	f.chunks, f.size = append(f.chunks, b), f.size+len(b)
	select {
	case f.changed <- struct{}{}:
	default:
	}
	return nil
}

// take copies what is there; 0 = nothing.
func (f *inflow) take(p []byte) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	total := 0
	for len(p) > 0 && len(f.chunks) > 0 {
		n := copy(p, f.chunks[0])
		p, total = p[n:], total+n
		if f.chunks[0] = f.chunks[0][n:]; len(f.chunks[0]) == 0 {
			f.chunks = f.chunks[1:]
		}
	}
	f.size -= total
	return total
}

// streamReader is the caller's end.
type streamReader struct {
	t      *rpcTable
	s      started
	ctx    context.Context
	cancel context.CancelFunc
	method string
	in     *inflow
	read   int // bytes that the writer was not told of
	err    error
	closed bool
}

// Read: see Comm.Stream. Not for several goroutines at once.
func (r *streamReader) Read(p []byte) (int, error) {
	if r.closed {
		return 0, ErrClosed
	}
	for len(p) > 0 {
		if n := r.in.take(p); n > 0 {
			if r.read += n; r.read >= streamWindow/2 {
				r.t.giveCredit(r.s, r.read)
				r.read = 0
			}
			return n, nil
		}
		if r.err != nil {
			return 0, r.err
		}
		select {
		case <-r.in.changed:
		case reply := <-r.s.p.reply:
			// The chunks came before it on the same connection.
			r.s.p.reply <- reply
			if r.err = r.t.await(r.ctx, r.s, r.method).Err; r.err == nil {
				r.err = io.EOF
			}
			r.t.forget(r.s.id)
		case <-r.ctx.Done():
			r.err = r.t.await(r.ctx, r.s, r.method).Err
		case <-r.t.w.ctx.Done():
			r.err = r.t.await(r.ctx, r.s, r.method).Err
		}
	}
	return 0, nil
}

// Close gives the call up, unless it is over.
func (r *streamReader) Close() error {
	r.cancel()
	r.closed = true
	if r.err == nil {
		_ = r.t.await(r.ctx, r.s, r.method) // tells the handler; whether it was done already does not matter
	}
	r.t.forget(r.s.id)
	return nil
}

// chunk takes a piece of a streamed answer in; one that nobody waits for is dropped.
func (t *rpcTable) chunk(peer int, id uint64, b []byte) error {
	t.mu.Lock()
	p := t.pending[id]
	t.mu.Unlock()
	if p == nil || p.peer != peer || p.in == nil {
		return nil
	}
	return p.in.put(b)
}

// giveCredit tells the writer how many bytes were read.
func (t *rpcTable) giveCredit(s started, n int) {
	if s.c == nil {
		t.credit(s.peer, s.id, n)
		return
	}
	s.c.send(frameCredit, s.id, binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// outflow is the handler's end of a streamed answer.
type outflow struct {
	send func([]byte) // takes the memory over

	mu      sync.Mutex
	credit  int
	changed chan struct{} // has room for one
}

func (t *rpcTable) credit(peer int, id uint64, n int) {
	t.mu.Lock()
	out := t.streams[callKey{peer, id}]
	t.mu.Unlock()
	if out == nil {
		return
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	out.credit = min(out.credit+n, streamWindow)
	select {
	case out.changed <- struct{}{}:
	default:
	}
}

// Write sends a piece of the answer to a caller that used Comm.Stream, and waits while the caller is behind. It fails when the
// caller gave up, and with ErrInvalid when it did not ask for a stream.
func (r *Request) Write(p []byte) (int, error) {
	if r.out == nil {
		return 0, invalid("write in a handler of %q: the caller did not ask for a stream", r.Method)
	}
	written := 0
	for written < len(p) {
		r.out.mu.Lock()
		n := min(len(p)-written, r.out.credit, maxChunk)
		r.out.credit -= n
		r.out.mu.Unlock()
		if err := r.ctx.Err(); err != nil {
			return written, &Error{Op: "write:" + r.Method, Rank: -1, Kind: state.KindAborted, Blamed: r.From, Text: "the caller is gone", Err: err}
		}
		if n > 0 {
			r.out.send(append([]byte(nil), p[written:written+n]...))
			written += n
			continue
		}
		select {
		case <-r.out.changed:
		case <-r.ctx.Done():
		}
	}
	return written, nil
}

// chunkSender is how the pieces of an answer reach the caller.
func (t *rpcTable) chunkSender(peer int, id uint64) func([]byte) {
	if peer == t.w.rank {
		return func(b []byte) { _ = t.chunk(peer, id, b) } // the window holds: it is counted here
	}
	t.w.mu.Lock()
	c := t.w.controls[peer]
	t.w.mu.Unlock()
	if c == nil {
		return func([]byte) {} // the caller is lost: its context ends
	}
	return func(b []byte) { c.send(frameChunk, id, b) }
}
