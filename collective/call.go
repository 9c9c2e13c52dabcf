package collective

import (
	"context"
	"sync"

	"github.com/fpmrun/fpmrun/collective/state"
)

// Handler answers calls of one method. It runs in a goroutine of its own; ctx ends at the caller's deadline, when the
// caller gives up or is lost, and when the world closes. The value is encoded with msgpack (a Raw is sent as it is); an error
// reaches the caller with its class, a panic as ErrRemote.
type Handler func(ctx context.Context, req *Request) (any, error)

// Raw is bytes that are sent in place of an encoded value.
type Raw []byte

// Request is a call as its handler sees it.
type Request struct {
	From   int    // caller's world rank
	Method string // name it was called by
	Args   []byte // msgpack; valid until the handler returns

	ctx   context.Context
	group uint64
	reply func([]byte)
	out   *outflow // nil unless the caller asked for a stream

	mu   sync.Mutex
	sent int
}

// Decode decodes the arguments into v, a pointer.
func (r *Request) Decode(v any) error { return decodeValue(r.Args, v) }

// Respond answers before the handler returns, with these bytes. A handler that then returns nil sends nothing
// more; every further answer is a duplicate, which the caller counts.
func (r *Request) Respond(raw Raw) { r.send(encodeReply(state.KindNone, raw)) }

func (r *Request) send(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	r.reply(b)
}

func (r *Request) answered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent > 0
}

// Reply is one rank's answer.
type Reply struct {
	Rank       int    // in the Comm that was called on
	Raw        []byte // the bytes that came, whatever they are; with a remote error its text
	Err        error  // *Error: timeout, peer lost, remote error, unknown method, malformed value
	Duplicates int    // further replies that came while the call was going on
}

// Decode decodes the value into v, a pointer. It returns Err when there is one, and ErrMalformed for
// bytes that are no value of v's type.
func (r *Reply) Decode(v any) error {
	if r.Err != nil {
		return r.Err
	}
	return decodeValue(r.Raw, v)
}

// Handle adds an RPC method to this process; it serves calls on every group. A call that comes earlier waits until the
// method exists, Ready was called or the first collective began.
func (c *Comm) Handle(name string, h Handler) error {
	if h == nil || !validMethod(name) {
		return invalid("handler %q: want a name of 1 to %d bytes and a function", name, maxMethod)
	}
	c.w.rpc.register(map[string]Handler{name: h})
	return nil
}

// Ready says that all handlers are registered: calls to others now fail. The first collective on any group says so, too.
func (c *Comm) Ready() { c.w.rpc.markReady() }

// Call runs a method on a rank of the group, also on this one, and decodes the answer into reply, a
// pointer, or nil when the value does not matter. It lasts until ctx ends; the call is made at most once.
func (c *Comm) Call(ctx context.Context, rank int, method string, args, reply any) error {
	if rank < 0 || rank >= len(c.members) {
		return invalid("call to rank %d of a group of %d", rank, len(c.members))
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	r := c.w.rpc.call(ctx, c.members[rank], method, args)
	if r.Err != nil || reply == nil {
		return r.Err
	}
	return r.Decode(reply)
}

// bounded applies the group's limit to a call.
func (c *Comm) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if d := c.limit(); d > 0 {
		return context.WithTimeout(ctx, d)
	}
	return context.WithCancel(ctx)
}

// CallAll runs a method on every rank of the group, this one included, and returns one Reply per rank, in rank order,
// when all have answered or ctx ends: a rank that hangs costs the others' replies nothing.
func (c *Comm) CallAll(ctx context.Context, method string, args any) []Reply {
	return c.callAll(ctx, method, args, func(Reply) {})
}

// CallEvery is CallAll for a caller that needs the answer of every rank: the first failure ends the call on all of them and is returned; it
// blames the rank.
func (c *Comm) CallEvery(ctx context.Context, method string, args any) ([]Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var once sync.Once
	var first error
	replies := c.callAll(ctx, method, args, func(r Reply) {
		if r.Err != nil {
			once.Do(func() { first = r.Err; cancel() })
		}
	})
	return replies, first
}

// callAll is CallAll; answered sees each reply when it has come.
func (c *Comm) callAll(ctx context.Context, method string, args any, answered func(Reply)) []Reply {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	replies := make([]Reply, len(c.members))
	body, err := encodeValue(args)
	if err != nil {
		for i, m := range c.members {
			replies[i] = Reply{Rank: i, Err: c.w.rpc.callError(m, method, err)}
			answered(replies[i])
		}
		return replies
	}
	calls := make([]started, len(c.members))
	var wg sync.WaitGroup
	for i, m := range c.members {
		wg.Go(func() {
			calls[i] = c.w.rpc.start(ctx, m, method, c.id, body, nil)
			replies[i] = c.w.rpc.await(ctx, calls[i], method)
			replies[i].Rank = i
			answered(replies[i])
		})
	}
	wg.Wait()
	for i := range calls {
		if calls[i].p != nil {
			replies[i].Duplicates = c.w.rpc.duplicates(calls[i])
		}
	}
	return replies
}

// duplicates forgets an answered call and returns how many more replies it had.
func (t *rpcTable) duplicates(s started) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, s.id)
	return s.p.dups
}
