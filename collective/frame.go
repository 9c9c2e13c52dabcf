package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Frames of the control connections: 24 bytes of header, then at most maxChunk bytes. A message longer than that travels
// in several frames with the same type and id, between which frames of other messages may come.

const (
	frameHeader = 24
	maxChunk    = 64 << 10
)

// frameType is what a control frame carries. Crosses the wire: append only.
type frameType uint8

const (
	frameBeat   frameType = 1 + iota // sign of life
	frameEvent                       // membership or failure, flooded (event)
	frameCall                        // RPC request
	frameReply                       // RPC reply
	frameCancel                      // the caller gave up the call with this id
	frameNotify                      // RPC request that wants no reply
	frameStream                      // RPC request that wants a streamed reply
	frameChunk                       // piece of a streamed reply
	frameCredit                      // bytes of a streamed reply that were read
	frameLast   = frameCredit
)

// frame is a header.
type frame struct {
	Type   frameType
	Packed bool   // the whole message is (pack.go)
	Len    uint32 // bytes after the header
	ID     uint64 // message id, chosen by the sender of the call
	Total  uint64 // bytes of the whole message
}

func (f frame) encode(b []byte) {
	clear(b[:frameHeader])
	b[0] = byte(f.Type)
	if f.Packed {
		b[1] = 1
	}
	binary.LittleEndian.PutUint32(b[4:], f.Len)
	binary.LittleEndian.PutUint64(b[8:], f.ID)
	binary.LittleEndian.PutUint64(b[16:], f.Total)
}

// decodeFrame parses a header and checks it against the limit of a message.
func decodeFrame(b []byte, maxMessage int64) (frame, error) {
	if len(b) != frameHeader {
		return frame{}, errors.New("collective: short frame header")
	}
	f := frame{Type: frameType(b[0]), Packed: b[1] == 1, Len: binary.LittleEndian.Uint32(b[4:]),
		ID: binary.LittleEndian.Uint64(b[8:]), Total: binary.LittleEndian.Uint64(b[16:])}
	limit := uint64(maxMessage)
	if f.Type == frameEvent {
		limit = maxEvent
	}
	switch {
	case f.Type < frameBeat || f.Type > frameLast:
		return f, fmt.Errorf("collective: frame of unknown type %d", b[0])
	case b[1] > 1:
		return f, fmt.Errorf("collective: frame with unknown flags %#x", b[1])
	case f.Len > maxChunk:
		return f, fmt.Errorf("collective: frame of %d bytes, limit %d", f.Len, maxChunk)
	case uint64(f.Len) > f.Total || f.Total > limit:
		return f, fmt.Errorf("collective: message of %d bytes with a frame of %d, limit %d", f.Total, f.Len, limit)
	}
	return f, nil
}

// assembler puts messages together from the frames of one connection.
type assembler struct {
	parts map[partKey][]byte
}

type partKey struct {
	typ frameType
	id  uint64
}

const maxParts = 1024 // unfinished messages per connection

// add takes a frame and its payload (not kept) and returns the whole message when it is complete.
func (a *assembler) add(f frame, payload []byte) (msg []byte, done bool, err error) {
	key := partKey{f.Type, f.ID}
	have, started := a.parts[key]
	if !started && uint64(f.Len) == f.Total {
		return append([]byte(nil), payload...), true, nil
	}
	if uint64(len(have)+len(payload)) > f.Total {
		return nil, false, fmt.Errorf("collective: message %d is longer than the %d bytes it declared", f.ID, f.Total)
	}
	if !started && len(a.parts) >= maxParts {
		return nil, false, fmt.Errorf("collective: more than %d unfinished messages", maxParts)
	}
	if f.Len == 0 {
		return nil, false, fmt.Errorf("collective: empty frame inside message %d", f.ID)
	}
	have = append(have, payload...)
	if uint64(len(have)) == f.Total {
		delete(a.parts, key)
		return have, true, nil
	}
	if a.parts == nil {
		a.parts = map[partKey][]byte{}
	}
	a.parts[key] = have
	return nil, false, nil
}
