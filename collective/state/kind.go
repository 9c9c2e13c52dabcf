package state

import "fmt"

// Kind classifies the end of an operation. The values are written to files and
// sent between ranks: append only.
type Kind uint32

// The kinds. KindNone is success.
const (
	KindNone       Kind = iota
	KindTimeout         // the operation's time limit or deadline passed
	KindPeerLost        // a rank that the operation needed is gone
	KindMismatch        // ranks called operations that cannot match
	KindAborted         // a rank gave the operation up (its context was cancelled, or it failed elsewhere)
	KindConcurrent      // two operations on one group at once
	KindClosed          // the world or group was closed
	KindInvalid         // refused before anything was sent: bad argument
	KindRemote          // an RPC handler returned an error or panicked
	KindUnknown         // an RPC method that the callee does not have
	KindMalformed       // a message or value that could not be decoded or encoded
	KindOther           // anything else
)

var kindNames = [...]string{"ok", "timeout", "peer lost", "mismatch", "aborted", "concurrent", "closed",
	"invalid", "remote", "unknown method", "malformed", "other"}

// String returns the kind's words, as used in reports.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// Phase is how far a rank has come with its world. Written to files: append only.
type Phase uint32

// The phases.
const (
	Idle    Phase = iota // the page is mapped, Join was not called
	Joining              // inside Join
	Joined               // Join returned a world
	Left                 // the world was closed
	Failed               // Join failed
)

var phaseNames = [...]string{"idle", "joining", "joined", "left", "failed"}

// String returns the phase's word.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase %d", uint32(p))
}
