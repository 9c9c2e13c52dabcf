package zmtp

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

// said is a peer's part of a handshake.
func said(commands ...[]byte) string { return string(greeting()) + string(bytes.Join(commands, nil)) }

func ready(socket string) []byte {
	return appendCommand(nil, "READY", appendProperty(appendProperty(nil, "Identity", ""), "Socket-Type", socket))
}

// What is sent is what the protocol's text demands, byte for byte.
func TestHandshakeBytes(t *testing.T) {
	var sent bytes.Buffer
	if minor, err := shake(&sent, bufio.NewReader(strings.NewReader(said(ready("SUB")))), "PUB", "SUB"); err != nil || minor != 1 {
		t.Fatalf("minor version %d, %v", minor, err)
	}
	want := "ff" + strings.Repeat("00", 8) + "7f" + "0301" + hex.EncodeToString([]byte("NULL")) + strings.Repeat("00", 16) + "00" + strings.Repeat("00", 31) +
		"0419" + "05" + hex.EncodeToString([]byte("READY")) + "0b" + hex.EncodeToString([]byte("Socket-Type")) + "00000003" + hex.EncodeToString([]byte("PUB"))
	if got := hex.EncodeToString(sent.Bytes()); got != want {
		t.Errorf("sent\n%s, want\n%s", got, want)
	}
}

func TestHandshakeRefused(t *testing.T) {
	with := func(at int, bytes string) string {
		text := said(ready("SUB"))
		return text[:at] + bytes + text[at+len(bytes):]
	}
	for _, c := range []struct{ name, text, want string }{
		{"another protocol", "GET / HTTP/1.1\r\n\r\n", "first byte is 0x47"},
		{"another protocol that begins alike", "\xffGET / HTTP/1.1\r\n\r\n", "byte 10"},
		{"version 2", with(10, "\x01"), "version 1"},
		{"version 1, which says less", "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x00", "version 0"},
		{"another mechanism", with(12, "PLAIN"), `mechanism is "PLAIN"`},
		{"a message first", said([]byte("\x00\x01x")), "before READY"},
		{"another command", said(appendCommand(nil, "HELLO", nil)), `"HELLO"`},
		{"a command without a name", said(appendFrame(nil, frame{command: true})), "no whole name"},
		{"a name that is cut", said(appendFrame(nil, frame{command: true, body: []byte("\x05READ")})), "no whole name"},
		{"an error", said(appendCommand(nil, "ERROR", []byte("\x02no"))), `refuses: "no"`},
		{"a property that is cut", said(appendCommand(nil, "READY", []byte("\x04abcd\x00\x00\x00"))), "cut short"},
		{"a property without a name", said(appendCommand(nil, "READY", []byte("\x00\x00\x00\x00\x00"))), "cut short"},
		{"a property that is not all there", said(appendCommand(nil, "READY", []byte("\x01a\xff\xff\xff\xff"))), "4294967295 bytes, 0 are there"},
		{"another socket", said(ready("PULL")), `type "PULL", want SUB or XSUB`},
		{"no socket", said(appendCommand(nil, "READY", nil)), `type ""`},
		{"a frame that is too long", said([]byte("\x06\x00\x00\x00\x00\x00\x00\x10\x01")), "4097 bytes, want at most 4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent bytes.Buffer
			_, err := shake(&sent, bufio.NewReader(strings.NewReader(c.text)), "PUB", "SUB", "XSUB")
			if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want ErrProtocol with %q", err, c.want)
			}
			if told := bytes.Contains(sent.Bytes(), []byte("\x05ERROR")); told != strings.Contains(c.want, "type") {
				t.Errorf("the peer was told: %v", told)
			}
		})
	}
	for n := range len(said(ready("SUB"))) { // an end at any byte
		if _, err := shake(io.Discard, bufio.NewReader(strings.NewReader(said(ready("SUB"))[:n])), "PUB", "SUB"); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// A peer's bytes, whatever they are, end the handshake with an error, or are a greeting and READY of a subscriber.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte(said(ready("SUB"))))
	f.Add([]byte(said(ready("PULL"))))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte(said(appendCommand(nil, "READY", []byte("\x01a\xff\xff\xff\xff")))))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := shake(io.Discard, bufio.NewReader(bytes.NewReader(data)), "PUB", "SUB")
		if err == nil && (!bytes.HasPrefix(data, []byte{0xff}) || !bytes.Contains(bytes.ToLower(data), []byte("socket-type")) || !bytes.Contains(data, []byte("SUB"))) {
			t.Errorf("taken for a subscriber: %q", data)
		}
	})
}
