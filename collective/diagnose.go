package collective

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

const (
	probeAfter    = time.Second            // a wait longer than this asks the peer what it is doing
	probeLimit    = 500 * time.Millisecond // for its answer
	diagnoseLimit = time.Second            // for all answers after a timeout
	maxDiagnosed  = 64                     // members asked after a timeout
	whereMethod   = "fpm.where"
)

// whereArgs asks a rank about a group. Crosses the wire.
type whereArgs struct{ Group, Seq uint64 }

// where is the answer: what the rank is doing in the group, and what its operation Seq was.
type where struct {
	Known bool   // it is a member and has opened the group
	Seq   uint64 // its last operation
	In    bool   // still inside it
	For   time.Duration
	Last  string // the operation's description
	Asked []byte // signature of the operation asked for, empty when it has not come to it or has forgotten it
}

// String says it in words: "in gather #16 for 2.1s".
func (a where) String() string {
	switch {
	case !a.Known:
		return "has not opened the group"
	case a.Seq == 0:
		return "has not called any operation"
	case a.In:
		return fmt.Sprintf("in %s for %v", a.Last, a.For.Round(time.Millisecond))
	}
	return "after " + a.Last
}

// answerWhere is the built-in method behind whereMethod.
func (w *world) answerWhere(args whereArgs) where {
	w.mu.Lock()
	c := w.groups[args.Group]
	w.mu.Unlock()
	if c == nil {
		return where{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := where{Known: true, Seq: c.seq, In: c.inOp}
	if c.seq > 0 {
		a.Last = decodeSig(c.recent[c.seq%recentOps][:]).String()
	}
	if args.Seq > 0 && args.Seq <= c.seq && args.Seq+recentOps > c.seq {
		a.Asked = append(a.Asked, c.recent[args.Seq%recentOps][:]...)
	}
	if c.inOp {
		a.For = time.Since(c.began)
	}
	return a
}

func (c *Comm) askWhere(ctx context.Context, world int) (where, error) {
	var a where
	r := c.w.rpc.call(ctx, world, whereMethod, whereArgs{c.id, c.op.sig.Seq})
	if r.Err != nil {
		return a, r.Err
	}
	return a, r.Decode(&a)
}

// probe asks the peer that the operation has waited for what it is doing, and finds a mismatch that no message
// would ever show: two ranks that wait for each other in different operations.
func (c *Comm) probe(world int) error {
	if c.op.sig.Op == opSend {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.life, probeLimit)
	defer cancel()
	a, err := c.askWhere(ctx, world)
	if err != nil || len(a.Asked) != signature {
		return nil // no answer is no mismatch; time limit and liveness still hold
	}
	theirs, ours := decodeSig(a.Asked), c.op.sig
	theirs.Phase = 0
	if theirs == ours {
		return nil
	}
	m := mismatch{world, theirs.String(), ours.String()}
	return &Error{Kind: state.KindMismatch, Blamed: world, Text: m.Error()}
}

// timedOut asks the members what they are doing and names those that have not come to the operation.
func (c *Comm) timedOut(waited int, cause error) error {
	o := &c.op
	e := &Error{Kind: state.KindTimeout, Blamed: -1, Err: cause,
		Text: fmt.Sprintf("after %v", time.Since(o.start).Round(time.Millisecond))}
	ask := c.members
	if len(ask) > maxDiagnosed || o.sig.Op == opSend {
		ask = []int{waited}
	}
	ctx, cancel := context.WithTimeout(c.life, diagnoseLimit)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	last := map[int]string{}
	for _, world := range ask {
		if world < 0 || world == c.w.rank {
			continue
		}
		wg.Go(func() {
			a, err := c.askWhere(ctx, world)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				last[world] = cmp.Or(c.w.condition(world), "no answer")
			case o.sig.Op == opSend || a.Seq < o.sig.Seq:
				last[world] = a.String()
			default:
				e.Arrived = append(e.Arrived, world)
			}
		})
	}
	wg.Wait()
	for _, world := range ask {
		if text, ok := last[world]; ok {
			e.Missing = append(e.Missing, Missing{world, text})
		}
	}
	for _, world := range e.Arrived {
		c.w.page.Arrived(o.slot, world)
	}
	if len(e.Missing) > 0 {
		e.Blamed = e.Missing[0].Rank
	}
	return e
}

// brief is the error's text without operation and rank, for an event.
func (e *Error) brief() string {
	b := Error{Op: e.Op, Seq: e.Seq, Group: e.Group, Rank: e.Rank, Kind: e.Kind, Text: e.Text, Err: e.Err, Missing: e.Missing}
	return b.Error()[len("collective: "):]
}
