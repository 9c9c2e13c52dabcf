package collective

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Data messages: a header of 32 bytes, then the payload. The first 24 bytes are the signature of the
// operation, equal on all ranks that take part in it.
const (
	dataHeader = 32
	signature  = 24
	linkBuffer = 4<<10 + dataHeader // so that a message of 4 KiB takes one read and one write
)

// opCode is the operation. Crosses the wire: append only.
type opCode uint8

const (
	opBarrier opCode = 1 + iota
	opBroadcast
	opGather
	opAllGather
	opScatter
	opReduce
	opAllReduce
	opReduceScatter
	opAllToAll
	opSplit
	opSend
)

var opNames = [...]string{"", "barrier", "broadcast", "gather", "allgather", "scatter", "reduce", "allreduce",
	"reducescatter", "alltoall", "split", "send"}

// String is the operation's name.
func (o opCode) String() string {
	if int(o) < len(opNames) && o > 0 {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// variable as an operation's count means that parts may differ in size.
const variable = ^uint64(0)

// sig is an operation's signature in the header of each of its messages.
type sig struct {
	Op    opCode
	Kind  elemKind // of typed slices, 0 = bytes
	Red   Op       // of reductions
	Phase uint8    // 0 = the operation itself, 1 and 2 = the exchange that Config.Check puts before it
	Root  uint32
	Seq   uint64
	Count uint64 // elements, or variable
}

func (s sig) encode(b []byte) {
	b[0], b[1], b[2], b[3] = byte(s.Op), byte(s.Kind), byte(s.Red), s.Phase
	binary.LittleEndian.PutUint32(b[4:], s.Root)
	binary.LittleEndian.PutUint64(b[8:], s.Seq)
	binary.LittleEndian.PutUint64(b[16:], s.Count)
}

func decodeSig(b []byte) sig {
	return sig{Op: opCode(b[0]), Kind: elemKind(b[1]), Red: Op(b[2]), Phase: b[3], Root: binary.LittleEndian.Uint32(b[4:]),
		Seq: binary.LittleEndian.Uint64(b[8:]), Count: binary.LittleEndian.Uint64(b[16:])}
}

// String describes the operation for a mismatch: "allreduce #4 (sum of 8 float64)".
func (s sig) String() string {
	text := s.Op.String()
	if s.Seq != 0 {
		text += fmt.Sprintf(" #%d", s.Seq)
	}
	what := ""
	switch {
	case s.Kind != 0:
		what = fmt.Sprintf("%d %v", s.Count, s.Kind)
		if s.Op == opReduce || s.Op == opAllReduce || s.Op == opReduceScatter {
			what = fmt.Sprintf("%v of %s", s.Red, what)
		}
	case s.Count != variable && s.Count != 0:
		what = fmt.Sprintf("%d bytes", s.Count)
	}
	switch s.Op {
	case opBroadcast, opGather, opScatter, opReduce:
		if what != "" {
			what += ", "
		}
		what += fmt.Sprintf("root %d", s.Root)
	}
	if what != "" {
		text += " (" + what + ")"
	}
	return text
}

// mismatch is what a link returns when the peer is in another operation, or sends another length.
type mismatch struct {
	peer   int // world rank
	theirs string
	ours   string
}

func (m *mismatch) Error() string {
	return fmt.Sprintf("rank %d called %s, this rank %s", m.peer, m.theirs, m.ours)
}

// link is the data connection to one peer of a group. Only the goroutine inside an operation touches it, except for
// stream.wake.
type link struct {
	peer  int // rank in the group
	world int // rank in the world
	s     stream

	buf  [linkBuffer]byte // received, not yet consumed
	r, w int

	receiving bool
	headed    bool   // the header of the message is in
	any       bool   // its length decides the memory
	want      []byte // where the payload goes
	got       int

	stage   [linkBuffer]byte // header and beginning of the message being sent
	staged  []byte           // unsent part of stage
	rest    []byte           // unsent part of the payload that is not in stage
	sending bool
}

// startSend prepares a message; push sends it.
func (l *link) startSend(signed, b []byte) {
	copy(l.stage[:], signed)
	binary.LittleEndian.PutUint64(l.stage[signature:], uint64(len(b)))
	n := copy(l.stage[dataHeader:], b)
	l.staged, l.rest, l.sending = l.stage[:dataHeader+n], b[n:], true
}

// startRecv prepares the receipt of a message of len(b) bytes, or of any length; pull receives it.
func (l *link) startRecv(b []byte, any bool) {
	l.want, l.any, l.got, l.headed, l.receiving = b, any, 0, false, true
}

// push sends what can be sent now, or waits for the first bytes.
func (l *link) push(wait bool) error {
	for _, part := range []*[]byte{&l.staged, &l.rest} {
		for len(*part) > 0 {
			n, err := l.write(*part, wait)
			*part = (*part)[n:]
			if err != nil {
				return err
			}
			wait = false
		}
	}
	l.sending = false
	return nil
}

func (l *link) write(b []byte, wait bool) (int, error) {
	if wait {
		return l.s.writeWait(b)
	}
	return l.s.tryWrite(b)
}

// pull receives what is there, or waits for the first bytes. Payload that is not in the buffer already goes
// straight into its place.
func (l *link) pull(wait bool, signed []byte, maxMessage int64) error {
	for {
		if !l.headed && l.w-l.r >= dataHeader {
			if err := l.head(signed, maxMessage); err != nil {
				return err
			}
		}
		var into []byte
		if l.headed {
			n := copy(l.want[l.got:], l.buf[l.r:l.w])
			l.r, l.got = l.r+n, l.got+n
			if l.got == len(l.want) {
				l.receiving = false
				return nil
			}
			into = l.want[l.got:] // here the buffer is empty
		}
		direct := len(into) >= linkBuffer
		if !direct {
			l.w = copy(l.buf[:], l.buf[l.r:l.w])
			l.r = 0
			into = l.buf[l.w:]
		}
		var n int
		var err error
		if wait {
			n, err = l.s.readWait(into)
			wait = false
		} else {
			n, err = l.s.tryRead(into)
		}
		if direct {
			l.got += n
		} else {
			l.w += n
		}
		if err != nil {
			return err
		}
		if direct && l.got == len(l.want) {
			l.receiving = false
			return nil
		}
	}
}

// head checks the header at the front of the buffer.
func (l *link) head(signed []byte, maxMessage int64) error {
	h := l.buf[l.r : l.r+dataHeader]
	if !bytes.Equal(h[:signature], signed) {
		return &mismatch{l.world, decodeSig(h).String(), decodeSig(signed).String()}
	}
	n := binary.LittleEndian.Uint64(h[signature:])
	switch {
	case n > uint64(maxMessage):
		return &mismatch{l.world, fmt.Sprintf("%v with a message of %d bytes", decodeSig(h), n), fmt.Sprintf("allows %d", maxMessage)}
	case l.any:
		l.want = make([]byte, n)
	case n != uint64(len(l.want)):
		return &mismatch{l.world, fmt.Sprintf("%v with %d bytes", decodeSig(h), n), fmt.Sprintf("expects %d", len(l.want))}
	}
	l.r += dataHeader
	l.headed = true
	return nil
}

// take hands over the memory of a message of any length.
func (l *link) take() []byte {
	b := l.want
	l.want = nil
	return b
}
