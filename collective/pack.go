package collective

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Bodies of calls, replies and notifications between hosts that are longer than Thresholds.Pack travel packed: 8 bytes of their length,
// then a zstd frame (RFC 8878).

const packHeader = 8

// Both are safe for use by several goroutines at once. They are made when a body is first packed: most jobs never do. The options are right.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		return e
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
		return d
	})
)

// pack returns the packed body, or nil when that is not shorter.
func pack(body []byte) []byte {
	b := packer().EncodeAll(body, binary.LittleEndian.AppendUint64(make([]byte, 0, packHeader+len(body)/2), uint64(len(body))))
	if len(b) >= len(body) {
		return nil
	}
	return b
}

// unpack checks the declared length against limit before any memory is taken for it.
func unpack(b []byte, limit int64) ([]byte, error) {
	if len(b) < packHeader {
		return nil, fmt.Errorf("%w: packed message of %d bytes", ErrMalformed, len(b))
	}
	size := binary.LittleEndian.Uint64(b)
	var h zstd.Header
	if err := h.Decode(b[packHeader:]); err != nil || !h.HasFCS || h.FrameContentSize != size || size > uint64(limit) {
		return nil, fmt.Errorf("%w: packed message of %d bytes declares %d, limit %d", ErrMalformed, len(b), size, limit)
	}
	// The decoder stops at the capacity: what a lying frame holds beyond it is an error.
	body, err := unpacker().DecodeAll(b[packHeader:], make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: packed message: %w", ErrMalformed, err)
	}
	if uint64(len(body)) != size {
		return nil, fmt.Errorf("%w: packed message of %d bytes declares %d", ErrMalformed, len(body), size)
	}
	return body, nil
}
