package keeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// recordMost is the length of a record at most, far above that of any environment.
const recordMost = 1 << 30

var errRecord = errors.New("launcher: a message between fpmrun and its keeper is cut short")

// record is a message as bytes: its fields in their order, numbers as varints, texts and lists behind their lengths. Each method passes a field, to the bytes or from
// them. It is not JSON since the reflection of that touches so much memory that a short job is a tenth slower.
type record struct {
	bytes   []byte // that are written, or are left to be read
	reading bool
	err     error // the first one
}

// number passes a number.
func (r *record) number(n *int) {
	if !r.reading {
		r.bytes = binary.AppendVarint(r.bytes, int64(*n))
		return
	}
	v, size := binary.Varint(r.bytes)
	if size <= 0 {
		r.bytes, r.err = nil, errRecord
		return
	}
	*n, r.bytes = int(v), r.bytes[size:]
}

// flag passes yes or no.
func (r *record) flag(b *bool) {
	n := 0
	if *b {
		n = 1
	}
	r.number(&n)
	*b = n != 0
}

// text passes a text.
func (r *record) text(s *string) {
	n := len(*s)
	r.number(&n)
	switch {
	case !r.reading:
		r.bytes = append(r.bytes, *s...)
	case n < 0 || n > len(r.bytes):
		r.bytes, r.err = nil, errRecord
	default:
		*s, r.bytes = string(r.bytes[:n]), r.bytes[n:]
	}
}

// list passes a list, each element by what pass does with it.
func list[T any](r *record, elements *[]T, pass func(*T)) {
	n := len(*elements)
	r.number(&n)
	if r.reading {
		if n < 0 || n > len(r.bytes) { // an element takes a byte at least
			r.bytes, r.err = nil, errRecord
			return
		}
		*elements = make([]T, n)
	}
	for i := range *elements {
		pass(&(*elements)[i])
	}
}

// framed is a record behind its length, made by what passes the fields.
func framed(pass func(*record)) []byte {
	r := record{bytes: make([]byte, 4, 256)}
	pass(&r)
	binary.LittleEndian.PutUint32(r.bytes, uint32(len(r.bytes)-4))
	return r.bytes
}

// readRecord reads a record behind its length, whose fields pass takes. At the end of the stream it returns io.EOF.
func readRecord(from *bufio.Reader, pass func(*record)) error {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > recordMost {
		return fmt.Errorf("launcher: a message of %d bytes between fpmrun and its keeper", n)
	}
	r := record{bytes: make([]byte, n), reading: true}
	if _, err := io.ReadFull(from, r.bytes); err != nil {
		return errRecord
	}
	pass(&r)
	if r.err == nil && len(r.bytes) > 0 {
		return fmt.Errorf("launcher: a message between fpmrun and its keeper has %d bytes too many", len(r.bytes))
	}
	return r.err
}
