package zmtp

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var frameOptions = cmp.AllowUnexported(frame{})

// The bytes are those of the protocol's text: flags, length, body.
func TestFrameBytes(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, 256)
	for _, c := range []struct {
		name string
		f    frame
		want string // the beginning, in hex
		size int
	}{
		{"empty", frame{body: []byte{}}, "0000", 2},
		{"more", frame{more: true, body: []byte("ab")}, "01026162", 4},
		{"longest short", frame{body: long[:255]}, "00ff78", 257},
		{"shortest long", frame{more: true, body: long}, "03000000000000010078", 265},
		{"command", frame{command: true, body: []byte("\x04PONG")}, "040504504f4e47", 7},
		{"long command", frame{command: true, body: long}, "06000000000000010078", 265},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := appendFrame(nil, c.f)
			if text := hex.EncodeToString(got); !strings.HasPrefix(text, c.want) || len(got) != c.size {
				t.Errorf("%d bytes, %.40s..., want %d, %s...", len(got), text, c.size, c.want)
			}
			back, err := readFrame(bufio.NewReader(bytes.NewReader(got)), 256)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.f, back, frameOptions); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFrameRefused(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"a flag that there is not", "\x08\x00", ErrProtocol},
		{"a command with more", "\x05\x00", ErrProtocol},
		{"one byte too long", "\x00\x09", ErrProtocol},
		{"as long as can be said", "\x02\xff\xff\xff\xff\xff\xff\xff\xff", ErrProtocol},
		{"nothing", "", io.EOF},
		{"flags only", "\x00", io.ErrUnexpectedEOF},
		{"half a length", "\x02\x00\x00", io.ErrUnexpectedEOF},
		{"half a body", "\x00\x04ab", io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			if f, err := readFrame(bufio.NewReader(strings.NewReader(c.text)), 8); !errors.Is(err, c.want) {
				t.Errorf("%v, %v, want %v", f, err, c.want)
			}
		})
	}
}

// Whatever a subscriber sends, the count of its subscriptions stays that of its prefixes, and within bounds.
func FuzzRequests(f *testing.F) {
	f.Add([]byte("\x00\x02\x01t\x00\x01\x01\x00\x02\x00t\x00\x02\x00t"))
	f.Add(appendCommand(appendCommand(appendCommand(nil, "SUBSCRIBE", []byte("a")), "CANCEL", nil), "PING", []byte("\x00\x00x")))
	f.Add([]byte("\x01\x01\x01\x00\x00\x04\x06\x05ERROR"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &subscriber{pub: &Pub{first: make(chan struct{})}, control: make(chan []byte, 1), prefixes: map[string]int{}}
		for r := bufio.NewReader(bytes.NewReader(data)); ; {
			f, err := readFrame(r, requestFrame)
			if err != nil || s.request(f) != nil {
				break
			}
		}
		sum := 0
		for prefix, n := range s.prefixes {
			if sum += n; n < 1 || !s.wants([]byte(prefix+"x")) {
				t.Errorf("%q is subscribed %d times", prefix, n)
			}
		}
		if sum != s.total || sum > subscriptions || s.wants(nil) != (s.prefixes[""] > 0) {
			t.Errorf("%d subscriptions, %d counted", sum, s.total)
		}
	})
}

// Whatever is read as frames is written and read back as the same frames, and no frame is longer than allowed.
func FuzzFrames(f *testing.F) {
	const limit = 300
	f.Add([]byte("\x01\x02ab\x00\x00"))
	f.Add([]byte("\x04\x05\x04PONG"))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x01x\x08"))
	f.Add([]byte("\x02\x00\x00\x01\x00\x00\x00\x00\x01x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var encoded []byte
		var first []frame
		r := bufio.NewReader(bytes.NewReader(data))
		for {
			f, err := readFrame(r, limit)
			if err != nil {
				break
			}
			if len(f.body) > limit {
				t.Fatalf("a body of %d bytes", len(f.body))
			}
			first, encoded = append(first, f), appendFrame(encoded, f)
		}
		r = bufio.NewReader(bytes.NewReader(encoded))
		for i, want := range first {
			got, err := readFrame(r, limit)
			if err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
			if diff := cmp.Diff(want, got, frameOptions); diff != "" {
				t.Fatalf("frame %d: %s", i, diff)
			}
		}
		if _, err := readFrame(r, limit); !errors.Is(err, io.EOF) {
			t.Fatalf("behind the last frame: %v", err)
		}
	})
}
