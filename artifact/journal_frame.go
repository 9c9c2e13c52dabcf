package artifact

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/klauspost/compress/zstd"
)

// Bounds of a frame.
const (
	frameHead = 8
	// journalRecordLimit bounds the text of one record. A point of 1,024 ranks with 512 requests each is near 100 MB.
	journalRecordLimit = 1 << 30
)

// errTorn says that there is no whole frame at a place of a journal.
var errTorn = errors.New("no whole frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends the frame of a record's text.
func appendFrame(b []byte, encoder *zstd.Encoder, text []byte) ([]byte, error) {
	if len(text) > journalRecordLimit {
		return b, fmt.Errorf("artifact: a journal record of %d bytes exceeds the %d of one", len(text), journalRecordLimit)
	}
	start := len(b)
	b = encoder.EncodeAll(text, append(b, make([]byte, frameHead)...))
	head, body := b[start:start+frameHead], b[start+frameHead:]
	if int64(len(body)) > math.MaxUint32 {
		return b[:start], fmt.Errorf("artifact: a journal frame of %d bytes is too long", len(body))
	}
	binary.LittleEndian.PutUint32(head, uint32(len(body)))
	binary.LittleEndian.PutUint32(head[4:], frameSum(head[:4], body))
	return b, nil
}

func frameSum(length, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, body)
}

// nextFrame takes the frame at the begin of b apart: the record's text and the rest. The error is errTorn when no whole frame is there.
func nextFrame(b []byte, decoder *zstd.Decoder) (text, rest []byte, err error) {
	if len(b) < frameHead {
		return nil, b, errTorn
	}
	size := int64(binary.LittleEndian.Uint32(b))
	if size < 1 || size > int64(len(b)-frameHead) {
		return nil, b, errTorn
	}
	body := b[frameHead : frameHead+size]
	if binary.LittleEndian.Uint32(b[4:]) != frameSum(b[:4], body) {
		return nil, b, errTorn
	}
	if text, err = decoder.DecodeAll(body, nil); err != nil {
		return nil, b, fmt.Errorf("artifact: body of a journal frame: %w", err)
	}
	return text, b[frameHead+size:], nil
}

// newJournalDecoder makes a decoder that allocates no more than a record may have.
func newJournalDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(journalRecordLimit))
}
