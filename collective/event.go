package collective

import (
	"fmt"

	"github.com/fpmrun/fpmrun/collective/state"
)

// eventKind is what happened. Crosses the wire: append only.
type eventKind uint8

const (
	eventLost  eventKind = 1 + iota // Subject is gone without having left
	eventLeft                       // Origin closed its world; Seqs are its last operations
	eventAbort                      // Origin gave up operation Seq of Group, kind Err, for the reason Text
)

const (
	maxEvent     = 64 << 10
	maxEventText = 600
)

// event is what floods the control connections. (Origin, N) identifies it.
type event struct {
	Kind    eventKind
	Origin  int
	N       uint64
	Subject int // rank lost, or blamed; -1 = nobody
	Group   uint64
	Seq     uint64
	Err     uint32
	Text    string
	Seqs    map[uint64]uint64 // group id -> last sequence number
}

type eventID struct {
	origin int
	n      uint64
}

// decodeEvent parses and checks an event for a world of size ranks.
func decodeEvent(b []byte, size int) (event, error) {
	var e event
	if err := decodeValue(b, &e); err != nil {
		return e, err
	}
	if e.Kind < eventLost || e.Kind > eventAbort || e.Origin < 0 || e.Origin >= size || e.Subject < -1 || e.Subject >= size ||
		e.Kind == eventLost && e.Subject < 0 {
		return e, fmt.Errorf("collective: event %d of rank %d about rank %d does not fit a world of %d", e.Kind, e.Origin, e.Subject, size)
	}
	return e, nil
}

// roster is what one rank knows of the others: who is lost or has left, which events it has seen and
// which groups were given up. No clock, no connection, no lock.
type roster struct {
	size   int
	self   int
	next   uint64
	seen   map[eventID]bool
	log    []event // for connections that come up later
	lost   map[int]string
	left   map[int]map[uint64]uint64
	broken map[uint64]event // first abort per group
}

func newRoster(self, size int) *roster {
	return &roster{size: size, self: self, seen: map[eventID]bool{}, lost: map[int]string{},
		left: map[int]map[uint64]uint64{}, broken: map[uint64]event{}}
}

// originate numbers an event of this rank.
func (r *roster) originate(e event) event {
	r.next++
	e.Origin, e.N = r.self, r.next
	if len(e.Text) > maxEventText {
		e.Text = e.Text[:maxEventText]
	}
	return e
}

// step takes an event in and reports whether it is news, that is, to be acted upon and passed on. That somebody else lost
// a rank that is known to be lost, or to have left, is no news.
func (r *roster) step(e event) bool {
	id := eventID{e.Origin, e.N}
	if r.seen[id] {
		return false
	}
	r.seen[id] = true
	switch e.Kind {
	case eventLost:
		_, lost := r.lost[e.Subject]
		_, left := r.left[e.Subject]
		if lost || left || e.Subject == r.self {
			return false
		}
		r.lost[e.Subject] = e.Text
	case eventLeft:
		if _, left := r.left[e.Origin]; left {
			return false
		}
		delete(r.lost, e.Origin)
		r.left[e.Origin] = e.Seqs
	case eventAbort:
		if _, known := r.broken[e.Group]; !known {
			r.broken[e.Group] = e
		}
	}
	r.log = append(r.log, e)
	return true
}

// gone reports whether the rank is lost or has left.
func (r *roster) gone(rank int) bool {
	_, lost := r.lost[rank]
	_, left := r.left[rank]
	return lost || left
}

// allGone reports whether no other rank is in the world any more.
func (r *roster) allGone() bool {
	for i := range r.size {
		if i != r.self && !r.gone(i) {
			return false
		}
	}
	return true
}

// abortError is what an abort means on this rank.
func (r *roster) abortError(e event) *Error {
	kind := state.Kind(e.Err)
	if kind != state.KindMismatch && kind != state.KindPeerLost {
		kind = state.KindAborted
	}
	blamed := e.Subject
	switch blamed {
	case -1:
		blamed = e.Origin
	case r.self:
		blamed = -1
	}
	return &Error{Group: e.Group, Rank: r.self, Kind: kind, Blamed: blamed, Text: fmt.Sprintf("rank %d: %s", e.Origin, e.Text)}
}

// treeParent is the parent of a rank in the binomial tree of control connections, -1 for rank 0: the
// rank with its lowest set bit cleared.
func treeParent(rank int) int {
	if rank == 0 {
		return -1
	}
	return rank & (rank - 1)
}

// treeChildren are the children of a rank in a world of size ranks.
func treeChildren(rank, size int) []int {
	var c []int
	for bit := 1; (rank == 0 || bit < rank&-rank) && rank+bit < size; bit <<= 1 {
		c = append(c, rank+bit)
	}
	return c
}
