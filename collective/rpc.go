package collective

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

const (
	maxMethod   = 128 // bytes of a method's name
	maxHandlers = 64  // handlers running at once on a rank; further calls queue in arrival order
	callHeader  = 16  // time limit in ns, group id
)

// rpcTable is the calls and handlers of a world. Its own lock is never held while another is taken.
type rpcTable struct {
	w       *world
	mu      sync.Mutex
	methods map[string]Handler
	ready   chan struct{} // closed when all handlers are registered
	isReady bool
	next    uint64
	pending map[uint64]*pendingCall
	serving map[callKey]context.CancelFunc
	streams map[callKey]*outflow // of handlers whose callers asked for a stream
	running int
	backlog []func()
}

type callKey struct {
	peer int
	id   uint64
}

type pendingCall struct {
	peer  int
	reply chan Reply // room for one
	dups  int
	done  bool
	in    *inflow // of a streamed answer
}

func (t *rpcTable) init(w *world) {
	t.w, t.ready = w, make(chan struct{})
	t.methods, t.pending = map[string]Handler{}, map[uint64]*pendingCall{}
	t.serving, t.streams = map[callKey]context.CancelFunc{}, map[callKey]*outflow{}
}

func validMethod(name string) bool { return name != "" && len(name) <= maxMethod }

func (t *rpcTable) register(handlers map[string]Handler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.Copy(t.methods, handlers)
}

// markReady lets calls to unknown methods fail instead of waiting for a later Handle.
func (t *rpcTable) markReady() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isReady {
		t.isReady = true
		close(t.ready)
	}
}

// encodeCall builds a request: time limit, group, method, arguments.
func encodeCall(limit time.Duration, group uint64, method string, args []byte) []byte {
	b := make([]byte, callHeader, callHeader+1+len(method)+len(args))
	binary.LittleEndian.PutUint64(b, uint64(max(limit, 0)))
	binary.LittleEndian.PutUint64(b[8:], group)
	b = append(b, byte(len(method)))
	return append(append(b, method...), args...)
}

type request struct {
	limit  time.Duration // 0 = none
	group  uint64
	method string
	args   []byte
}

func decodeCall(b []byte) (request, error) {
	if len(b) < callHeader+1 || len(b) < callHeader+1+int(b[callHeader]) {
		return request{}, fmt.Errorf("%w: call of %d bytes", ErrMalformed, len(b))
	}
	n := int(b[callHeader])
	r := request{limit: time.Duration(binary.LittleEndian.Uint64(b)), group: binary.LittleEndian.Uint64(b[8:]),
		method: string(b[callHeader+1 : callHeader+1+n]), args: b[callHeader+1+n:]}
	if !validMethod(r.method) || r.limit < 0 {
		return r, fmt.Errorf("%w: call of method %q", ErrMalformed, r.method)
	}
	return r, nil
}

// A reply is 4 bytes of kind, then the value, or the error's text.
func encodeReply(kind state.Kind, body []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(kind)), body...)
}

func decodeReply(rank int, method string, b []byte) Reply {
	if len(b) < 4 {
		return Reply{Rank: rank, Raw: b, Err: &Error{Op: "call:" + method, Rank: rank, Kind: state.KindMalformed, Blamed: rank,
			Text: fmt.Sprintf("reply of %d bytes", len(b))}}
	}
	r := Reply{Rank: rank, Raw: b[4:]}
	if k := state.Kind(binary.LittleEndian.Uint32(b)); k != state.KindNone {
		r.Err = &Error{Op: "call:" + method, Rank: rank, Kind: k, Blamed: rank, Remote: true, Text: strings.ToValidUTF8(string(r.Raw), "?")}
	}
	return r
}

// call runs a method on a rank and waits for the reply. Encoding, connecting and waiting failures are in Reply.Err.
func (t *rpcTable) call(ctx context.Context, peer int, method string, args any) Reply {
	body, err := encodeValue(args)
	if err != nil {
		return Reply{Rank: peer, Err: t.callError(peer, method, err)}
	}
	s := t.start(ctx, peer, method, 0, body, nil)
	r := t.await(ctx, s, method)
	if s.p != nil {
		r.Duplicates = t.duplicates(s)
	}
	return r
}

// started is a call on its way.
type started struct {
	peer int
	id   uint64
	p    *pendingCall
	c    *control // nil = this rank
	err  error
}

// checkCall refuses a request that no rank would take.
func (t *rpcTable) checkCall(method string, args []byte) error {
	if !validMethod(method) {
		return invalid("method name of %d bytes, want 1 to %d", len(method), maxMethod)
	}
	if int64(len(args)) > t.w.cfg.MaxMessage {
		return invalid("arguments of %d bytes, limit %d", len(args), t.w.cfg.MaxMessage)
	}
	return nil
}

func (t *rpcTable) nextID() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	return t.next
}

// start sends a request, of a streamed answer when in is there. What goes wrong is found by await.
func (t *rpcTable) start(ctx context.Context, peer int, method string, group uint64, args []byte, in *inflow) started {
	s := started{peer: peer}
	if s.err = t.checkCall(method, args); s.err != nil {
		return s
	}
	if t.w.ctx.Err() != nil {
		s.err = ErrClosed
		return s
	}
	if peer != t.w.rank {
		if s.c, s.err = t.w.control(ctx, peer); s.err != nil {
			return s
		}
	}
	limit := time.Duration(0)
	if d, ok := ctx.Deadline(); ok {
		limit = max(time.Until(d), 1)
	}
	s.p = &pendingCall{peer: peer, reply: make(chan Reply, 1), in: in}
	s.id = t.nextID()
	t.mu.Lock()
	t.pending[s.id] = s.p
	t.mu.Unlock()
	msg := encodeCall(limit, group, method, args)
	if s.c != nil {
		typ := frameCall
		if in != nil {
			typ = frameStream
		}
		s.c.send(typ, s.id, msg)
		// A connection that broke before the call was in the table tells nobody.
		t.w.mu.Lock()
		gone := t.w.roster.gone(peer) && t.w.controls[peer] != s.c
		t.w.mu.Unlock()
		if gone {
			t.peerGone(peer, t.w.peerGoneError(peer))
		}
	} else if err := t.called(peer, s.id, msg, in != nil, func(b []byte) { t.replied(peer, s.id, b) }); err != nil {
		s.err = err
	}
	return s
}

// await waits for a started call's reply.
func (t *rpcTable) await(ctx context.Context, s started, method string) Reply {
	if s.err != nil {
		if err := ctx.Err(); err != nil {
			s.err = err
		}
		return Reply{Rank: s.peer, Err: t.callError(s.peer, method, s.err)}
	}
	select {
	case r := <-s.p.reply:
		return t.finish(s, method, r)
	default:
	}
	var err error
	select {
	case r := <-s.p.reply:
		return t.finish(s, method, r)
	case <-ctx.Done():
		err = ctx.Err()
		if s.c != nil {
			s.c.send(frameCancel, s.id, nil)
		} else {
			t.cancelled(s.peer, s.id)
		}
	case <-t.w.ctx.Done():
		err = ErrClosed
	}
	t.forget(s.id)
	return Reply{Rank: s.peer, Err: t.callError(s.peer, method, err)}
}

func (t *rpcTable) forget(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, id)
}

func (t *rpcTable) finish(s started, method string, r Reply) Reply {
	if r.Err != nil {
		t.forget(s.id)
		return Reply{Rank: s.peer, Err: t.callError(s.peer, method, r.Err)}
	}
	return decodeReply(s.peer, method, r.Raw)
}

func (t *rpcTable) callError(peer int, method string, err error) error {
	e := &Error{Op: "call:" + method, Rank: t.w.rank, Kind: kindOf(err), Blamed: peer, Text: fmt.Sprintf("to rank %d", peer), Err: err}
	if c, ok := err.(*Error); ok { // a world's error about the peer: its own text is enough
		e.Text, e.Err = c.Text, c.Err
	}
	return e
}

// replied matches a reply to its call. An answered call keeps waiting for nothing: a second reply is counted
// while the call is remembered, a later one is dropped and counted.
func (t *rpcTable) replied(peer int, id uint64, msg []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pending[id]
	switch {
	case p == nil || p.peer != peer:
		t.w.late.Add(1)
	case p.done:
		p.dups++
	default:
		p.done = true
		p.reply <- Reply{Raw: msg}
	}
}

// peerGone fails the calls that wait for a rank.
func (t *rpcTable) peerGone(peer int, err *Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.pending {
		if p.peer == peer && !p.done {
			p.done = true
			p.reply <- Reply{Err: err}
		}
	}
	for k, cancel := range t.serving {
		if k.peer == peer {
			cancel()
		}
	}
}
