package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fpmrun/fpmrun/collective/state"
)

// The classes of errors. errors.Is(err, ErrTimeout) holds for an *Error of that kind, also when it
// came over an RPC. The first six end an operation on a group; the others belong to calls.
var (
	ErrTimeout    = errors.New("collective: timeout")                 // the time limit or deadline passed
	ErrPeerLost   = errors.New("collective: peer lost")               // a rank that the operation needs is gone
	ErrMismatch   = errors.New("collective: operations do not match") // ranks called operations that cannot match
	ErrAborted    = errors.New("collective: aborted")                 // a rank gave the operation up
	ErrConcurrent = errors.New("collective: concurrent operation")    // the group already runs one
	ErrClosed     = errors.New("collective: closed")                  // the world or group was closed here

	ErrInvalid       = errors.New("collective: invalid argument") // refused before anything was sent
	ErrRemote        = errors.New("collective: remote error")     // the handler failed or panicked
	ErrUnknownMethod = errors.New("collective: unknown method")   // the callee has no such method
	ErrMalformed     = errors.New("collective: malformed value")  // bytes that could not be encoded or decoded
)

var sentinels = map[state.Kind]error{
	state.KindTimeout: ErrTimeout, state.KindPeerLost: ErrPeerLost, state.KindMismatch: ErrMismatch,
	state.KindAborted: ErrAborted, state.KindConcurrent: ErrConcurrent, state.KindClosed: ErrClosed,
	state.KindInvalid: ErrInvalid, state.KindRemote: ErrRemote, state.KindUnknown: ErrUnknownMethod,
	state.KindMalformed: ErrMalformed,
}

// Error is how an operation or a call failed, and where.
type Error struct {
	Op      string     // barrier, gather, call:NAME, ...
	Group   uint64     // group id, 0 = the world
	Seq     uint64     // sequence number of the operation in its group, 0 = none
	Rank    int        // world rank on which it failed
	Kind    state.Kind // class
	Blamed  int        // world rank that is the cause, -1 = nobody else
	Arrived []int      // world ranks known to have entered the operation
	Missing []Missing  // world ranks that the operation still needs
	Remote  bool       // it failed on the callee's side of an RPC; Text is the callee's
	Text    string     // what happened
	Err     error      // cause on this side, may be nil
}

// Missing is a rank that did not arrive, and the last that is known of it.
type Missing struct {
	Rank int
	Last string // for example "in gather #16 since 2.1s", "no answer", "exited with status 7"
}

// Error says operation, rank, kind, text and the missing ranks.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("collective: ")
	if e.Op == "" {
		b.WriteString("group broken")
	}
	b.WriteString(e.Op)
	if e.Seq != 0 {
		fmt.Fprintf(&b, " #%d", e.Seq)
	}
	if e.Group != 0 {
		fmt.Fprintf(&b, " of group %x", e.Group)
	}
	fmt.Fprintf(&b, " on rank %d: ", e.Rank)
	b.WriteString(e.Kind.String())
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	if e.Err != nil && !strings.Contains(e.Text, e.Err.Error()) {
		b.WriteString(": " + e.Err.Error())
	}
	for i, m := range e.Missing {
		if i == 0 {
			b.WriteString("; missing: ")
		} else {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "rank %d (%s)", m.Rank, m.Last)
	}
	if len(e.Arrived) > 0 {
		b.WriteString("; arrived: " + rankList(e.Arrived))
	}
	return b.String()
}

// Is reports whether target is the sentinel of the error's kind, or ErrRemote for any remote error.
func (e *Error) Is(target error) bool {
	return target != nil && (target == sentinels[e.Kind] || e.Remote && target == ErrRemote)
}

// Unwrap returns the cause on this side.
func (e *Error) Unwrap() error { return e.Err }

// kindOf classifies any error for the wire and the state page.
func kindOf(err error) state.Kind {
	var e *Error
	switch {
	case err == nil:
		return state.KindNone
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return state.KindTimeout
	case errors.Is(err, context.Canceled):
		return state.KindAborted
	}
	for k, s := range sentinels {
		if errors.Is(err, s) {
			return k
		}
	}
	return state.KindOther
}

// rankList prints ranks as ranges: "0-2,5".
func rankList(ranks []int) string {
	ranks = slices.Clone(ranks)
	slices.Sort(ranks)
	var b strings.Builder
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		if i == j {
			fmt.Fprint(&b, ranks[i])
		} else {
			fmt.Fprintf(&b, "%d-%d", ranks[i], ranks[j])
		}
		i = j + 1
	}
	return b.String()
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
