package zmtp

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Flags of a frame; all other bits are zero.
const (
	flagMore    = 1 << 0 // further frames of the message follow
	flagLong    = 1 << 1 // the length has eight bytes instead of one
	flagCommand = 1 << 2
)

// frame is one frame of a message, or a command.
type frame struct {
	more, command bool
	body          []byte
}

// appendFrame appends the encoding of a frame: flags, length (1 byte, or 8 big-endian when it exceeds 255), body.
func appendFrame(dst []byte, f frame) []byte {
	var flags byte
	if f.more {
		flags |= flagMore
	}
	if f.command {
		flags |= flagCommand
	}
	if len(f.body) > 255 {
		dst = append(dst, flags|flagLong)
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(f.body)))
	} else {
		dst = append(dst, flags, byte(len(f.body)))
	}
	return append(dst, f.body...)
}

// appendMessage appends the frames of a message.
func appendMessage(dst []byte, frames [][]byte) []byte {
	for i, body := range frames {
		dst = appendFrame(dst, frame{more: i < len(frames)-1, body: body})
	}
	return dst
}

// readFrame reads one frame. A body of more than limit bytes is ErrProtocol, before anything is allocated for it; io.EOF is an end between two frames.
func readFrame(r *bufio.Reader, limit int) (frame, error) {
	flags, err := r.ReadByte()
	if err != nil {
		return frame{}, err
	}
	f := frame{more: flags&flagMore != 0, command: flags&flagCommand != 0}
	if flags&^(flagMore|flagLong|flagCommand) != 0 || f.more && f.command {
		return frame{}, wrong("a frame has flags %#02x", flags)
	}
	size := make([]byte, 1, 8)
	if flags&flagLong != 0 {
		size = size[:8]
	}
	if _, err := io.ReadFull(r, size); err != nil {
		return frame{}, cut(err)
	}
	n := uint64(size[0])
	if flags&flagLong != 0 {
		n = binary.BigEndian.Uint64(size)
	}
	if n > uint64(limit) {
		return frame{}, wrong("a frame has %d bytes, want at most %d", n, limit)
	}
	f.body = make([]byte, n)
	if _, err := io.ReadFull(r, f.body); err != nil {
		return frame{}, cut(err)
	}
	return f, nil
}

// cut is the error of a connection that ends inside a frame.
func cut(err error) error {
	if err == io.EOF { //nolint:errorlint // io.ReadFull returns it bare
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("zmtp: inside a frame: %w", err)
}
