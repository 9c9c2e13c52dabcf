package collective

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

// Comm is a group of ranks, an ordered channel between them: all members call the same operations in the same
// order, one at a time. Join returns the world's; Split and Dup make others. Different Comms and RPC may be used at once.
type Comm struct {
	w       *world
	id      uint64 // 0 = the world
	members []int  // world ranks by group rank
	rank    int    // of this process in the group
	layout  *layout
	levels  *levels // nil without a layout
	timeout atomic.Int64

	busy   atomic.Bool
	alert  atomic.Bool           // something happened that may interrupt the operation in progress
	broken atomic.Pointer[Error] // first failure; set once
	life   context.Context       // ends when broken
	kill   context.CancelFunc

	mu       sync.Mutex // guards what follows
	links    []*link    // by group rank; written by the operation's goroutine only
	seq      uint64     // of the last operation
	inOp     bool
	began    time.Time                  // of the last operation
	recent   [recentOps][signature]byte // signatures of the last operations, by sequence number
	leaver   int                        // group member that left first, -1 = none
	leaveSeq uint64                     // its last operation
	leavers  map[int]bool               // world ranks that left

	op operation // the one in progress; only its goroutine touches it
}

const recentOps = 16

// operation is the one in progress.
type operation struct {
	ctx      context.Context
	signed   [signature]byte
	sig      sig
	slot     state.Slot
	start    time.Time
	deadline time.Time // zero = none
	ctxEnds  bool      // the deadline is the context's
	bytes    int64
	idle     bool // the last wait was long: sleep at once next time
	yields   int
	sharing  sharing

	watched <-chan struct{} // Done of the context that wakes the links
	unwatch func() bool
	scratch []byte // kept between operations
}

func (w *world) newComm(id uint64, members []int, timeout time.Duration) *Comm {
	c := &Comm{w: w, id: id, members: members, rank: slices.Index(members, w.rank), links: make([]*link, len(members)), leaver: -1}
	c.timeout.Store(int64(timeout))
	hosts := make([]string, len(members))
	for i, m := range members {
		hosts[i] = w.table[m].Host
	}
	if c.layout = newLayout(hosts); c.layout != nil {
		t := groupTransport{c}
		c.levels = &levels{c.layout.inside(t, 0), c.layout.heads(t, 0)}
	}
	c.life, c.kill = context.WithCancel(w.ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups[id] = c
	// What happened before the group existed here counts as well.
	for peer, text := range w.roster.lost {
		if c.has(peer) {
			c.breakLocked(&Error{Rank: w.rank, Kind: state.KindPeerLost, Blamed: peer, Text: "lost: " + text, Missing: []Missing{{peer, text}}})
		}
	}
	for peer, seqs := range w.roster.left {
		if c.has(peer) {
			c.leftLocked(peer, seqs[id])
		}
	}
	if e, ok := w.roster.broken[id]; ok {
		c.breakLocked(w.roster.abortError(e))
	}
	return c
}

// Rank is this process's rank in the group.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks in the group.
func (c *Comm) Size() int { return len(c.members) }

// WorldRank translates a rank of the group into a rank of the world; -1 when there is no such rank.
func (c *Comm) WorldRank(rank int) int {
	if rank < 0 || rank >= len(c.members) {
		return -1
	}
	return c.members[rank]
}

// SetTimeout changes the limit of this Comm's later operations on this rank; 0 or negative = none. A rank that waits for
// another's next step wants none: it is not left alone then, since a lost peer or an abort ends the operation all the same.
func (c *Comm) SetTimeout(d time.Duration) { c.timeout.Store(int64(d)) }

// Snapshot returns what this rank's state page says: operations in flight, the flight recorder and the last error.
func (c *Comm) Snapshot() state.Snapshot { return c.w.page.Snapshot() }

// Quiet holds this process's heartbeats back for d, at most half of the liveness limit, for a timed section.
func (c *Comm) Quiet(d time.Duration) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.quiet = time.Now().Add(min(d, c.w.liveness/2))
}

// limit is the time limit of an operation, 0 or negative = none.
func (c *Comm) limit() time.Duration { return time.Duration(c.timeout.Load()) }

func (c *Comm) has(world int) bool { return slices.Contains(c.members, world) }

// linked reports whether a data connection to the world rank exists.
func (c *Comm) linked(world int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.members, world)
	return i >= 0 && c.links[i] != nil
}

// breakLocked ends the group: the first error stands, the operation in progress wakes up. Called with w.mu held.
func (c *Comm) breakLocked(err *Error) {
	if c.broken.CompareAndSwap(nil, err) {
		c.kill()
		c.wake()
	}
}

// leftLocked records that a member left normally after its operation seq. Called with w.mu held.
func (c *Comm) leftLocked(world int, seq uint64) {
	c.mu.Lock()
	if c.leavers == nil {
		c.leavers = map[int]bool{}
	}
	c.leavers[world] = true
	if c.leaver < 0 || seq < c.leaveSeq {
		c.leaver, c.leaveSeq = world, seq
	}
	c.mu.Unlock()
	c.wake()
}

// wake makes the operation in progress look around, also when it waits.
func (c *Comm) wake() {
	c.alert.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.links {
		if l != nil {
			l.s.wake()
		}
	}
}

// begin starts an operation: one at a time, on a group that is whole. An error of begin needs no end.
func (c *Comm) begin(ctx context.Context, s sig) error {
	if !c.busy.CompareAndSwap(false, true) {
		return &Error{Op: s.Op.String(), Group: c.id, Rank: c.w.rank, Kind: state.KindConcurrent, Blamed: -1,
			Text: "another operation is in progress on this group; Dup gives another channel"}
	}
	if err := c.broken.Load(); err != nil {
		if err.Kind != state.KindClosed { // the launcher asks whom a rank blames that ends because of it
			c.w.page.Fail(err.Kind, err.Blamed, err.Error())
		}
		c.busy.Store(false)
		return err
	}
	c.w.rpc.markReady()
	o := &c.op
	c.mu.Lock()
	if s.Op != opSend {
		c.seq++
		s.Seq = c.seq
	}
	s.encode(o.signed[:])
	o.start = time.Now()
	c.inOp, c.began = true, o.start
	c.recent[s.Seq%recentOps] = o.signed
	c.mu.Unlock()
	o.ctx, o.sig, o.bytes, o.yields = ctx, s, 0, 0
	o.slot = c.w.page.BeginAt(o.start, s.Op.String(), c.id, s.Seq)
	o.deadline, o.ctxEnds = time.Time{}, false
	if d := c.limit(); d > 0 {
		o.deadline = o.start.Add(d)
	}
	if d, ok := ctx.Deadline(); ok && (o.deadline.IsZero() || d.Before(o.deadline)) {
		o.deadline, o.ctxEnds = d, true
	}
	if done := ctx.Done(); done != nil && done != o.watched {
		if o.unwatch != nil {
			o.unwatch()
		}
		o.watched, o.unwatch = done, context.AfterFunc(ctx, c.wake)
	}
	err := c.interrupted(-1, o.start)
	if err == nil && c.w.cfg.Check && s.Op != opSend && len(c.members) > 1 {
		err = c.check()
	}
	if err != nil {
		return c.end(err)
	}
	return nil
}

// check exchanges signatures. A barrier whose messages carry them fails on a rank that meets another one; that
// rank does not enter the second barrier, so nobody completes it.
func (c *Comm) check() error {
	for phase := uint8(1); phase <= 2; phase++ {
		c.op.signed[3] = phase
		if err := barrier(groupTransport{c}); err != nil {
			return err
		}
	}
	c.op.signed[3] = 0
	return nil
}

// end finishes the operation and gives its error the place. A failure breaks the group and is told to its members.
func (c *Comm) end(err error) error {
	o := &c.op
	o.ctx = nil
	kind := state.KindNone
	var e *Error
	if err != nil {
		e = c.fail(err)
		kind = e.Kind
		c.w.page.Fail(kind, e.Blamed, e.Error())
	}
	now := time.Now()
	c.w.page.EndAt(now, o.slot, kind, o.bytes)
	if c.w.place >= 0 && o.sharing.seen(now, now.Sub(o.start), o.yields) {
		moveTo(c.w.place)
	}
	c.mu.Lock()
	c.inOp = false
	c.mu.Unlock()
	c.busy.Store(false)
	if e == nil {
		if c.broken.Load() != nil { // closed before this operation noticed
			c.release()
		}
		return nil
	}
	return e
}

// fail turns the failure of the operation into the group's first error, or into that of an event that broke the group before.
func (c *Comm) fail(err error) *Error {
	o := &c.op
	e, ok := err.(*Error) // not errors.As: a cause deeper down is not this operation's error
	if !ok {
		e = c.classify(err)
	} else {
		copied := *e
		e = &copied
	}
	e.Op, e.Seq, e.Group, e.Rank = o.sig.Op.String(), o.sig.Seq, c.id, c.w.rank
	c.w.mu.Lock()
	mine := c.broken.Load() == nil
	c.breakLocked(e)
	c.w.mu.Unlock()
	if mine && e.Kind != state.KindClosed {
		c.w.publish(event{Kind: eventAbort, Subject: e.Blamed, Group: c.id, Seq: e.Seq, Err: uint32(e.Kind), Text: e.brief()})
	}
	c.closeLinks()
	return e
}

// release closes the data connections of a broken group, unless an operation is in progress: that does it at its end.
func (c *Comm) release() {
	if c.busy.CompareAndSwap(false, true) {
		c.closeLinks()
		c.busy.Store(false)
	}
}

// closeLinks closes the data connections. Whoever holds busy calls it.
func (c *Comm) closeLinks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, l := range c.links {
		if l != nil {
			_ = l.s.Close() // nothing more is expected from it
			c.links[i] = nil
		}
	}
}

// scratch returns n bytes that live until the next call.
func (c *Comm) scratch(n int) []byte {
	if cap(c.op.scratch) < n {
		c.op.scratch = make([]byte, n)
	}
	return c.op.scratch[:n]
}
