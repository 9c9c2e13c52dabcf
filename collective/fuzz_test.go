package collective

import (
	"bytes"
	"testing"
	"time"
)

func FuzzParts(f *testing.F) {
	f.Add(packParts([]part{newPart([]byte("abc"), 10), newPart(nil, 10), newPart(make([]byte, 11), 10)}), 3)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 1)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 || n > 1000 {
			return
		}
		parts, err := unpackParts(b, n, 1<<20)
		if err != nil {
			return
		}
		again, err := unpackParts(packParts(parts), n, 1<<20)
		if err != nil || len(again) != n {
			t.Fatalf("what was read does not read back: %v", err)
		}
	})
}

func FuzzDecoders(f *testing.F) {
	value, err := encodeValue(event{Kind: eventAbort, Origin: 1, Text: "x", Seqs: map[uint64]uint64{1: 2}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Add((&hello{Version: 1, Purpose: forData}).encode())
	f.Add((&answer{Version: 1}).encode())
	header := make([]byte, frameHeader)
	frame{Type: frameCall, Len: 3, Total: 3}.encode(header)
	f.Add(header)
	f.Add(encodeCall(time.Second, 0, "method", []byte{1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEvent(b, 4); err == nil && (e.Origin < 0 || e.Origin >= 4) {
			t.Fatalf("accepted %+v", e)
		}
		if h, err := decodeHello(b); err == nil && !bytes.Equal(h.encode()[:7], b[:7]) {
			t.Fatal("a hello reads back differently")
		}
		if _, err := decodeAnswer(b); err == nil && len(b) != helloSize {
			t.Fatal("accepted an answer of another size")
		}
		if fr, err := decodeFrame(b, 1000); err == nil && (fr.Len > maxChunk || uint64(fr.Len) > fr.Total) {
			t.Fatalf("accepted %+v", fr)
		}
		_, _ = decodeCall(b)
		_ = decodeReply(1, "method", b)
	})
}
