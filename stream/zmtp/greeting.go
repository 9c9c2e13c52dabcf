package zmtp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrProtocol is wrapped by errors about a peer that does not speak the protocol, or not as a publisher or subscriber should.
var ErrProtocol = errors.New("zmtp: not a peer that is understood")

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrProtocol, fmt.Errorf(format, args...))
}

const (
	greetingSize  = 64
	signatureSize = 10
	mechanismAt   = 12
	mechanismSize = 20
	major, minor  = 3, 1
)

// greeting is what both sides send first: the signature, the version, the mechanism padded with zeros, the role in the mechanism and filler.
func greeting() []byte {
	g := make([]byte, greetingSize)
	g[0], g[signatureSize-1] = 0xff, 0x7f
	g[signatureSize], g[signatureSize+1] = major, minor
	copy(g[mechanismAt:], "NULL")
	return g
}

// readGreeting reads the peer's greeting and returns its minor version. It reads no further than it has to to find that the peer speaks something else.
func readGreeting(r io.Reader) (peerMinor byte, err error) {
	g := make([]byte, greetingSize)
	if _, err := io.ReadFull(r, g[:1]); err != nil {
		return 0, fmt.Errorf("zmtp: read the greeting: %w", err)
	}
	if g[0] != 0xff {
		return 0, wrong("the first byte is %#02x, want 0xff", g[0])
	}
	if _, err := io.ReadFull(r, g[1:signatureSize+1]); err != nil {
		return 0, fmt.Errorf("zmtp: read the greeting: %w", err)
	}
	if end := g[signatureSize-1]; end != 0x7f {
		return 0, wrong("byte 10 of the greeting is %#02x, want 0x7f", end)
	}
	if v := g[signatureSize]; v < major {
		return 0, wrong("the peer has version %d of the protocol, want at least %d", v, major)
	}
	if _, err := io.ReadFull(r, g[signatureSize+1:]); err != nil {
		return 0, fmt.Errorf("zmtp: read the greeting: %w", err)
	}
	if name := bytes.TrimRight(g[mechanismAt:mechanismAt+mechanismSize], "\x00"); string(name) != "NULL" {
		return 0, wrong("the peer's security mechanism is %q, want NULL", name)
	}
	return g[signatureSize+1], nil
}
