package zmtp

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// handshakeFrame is the most bytes in a frame of the handshake.
const handshakeFrame = 4096

// shake exchanges greetings and READY commands with a peer, under the deadline that the caller has set on the connection. own is the type of the
// socket at this end, peers are those that may be at the other. It returns the peer's minor version.
func shake(w io.Writer, r *bufio.Reader, own string, peers ...string) (peerMinor byte, err error) {
	if _, err := w.Write(greeting()); err != nil {
		return 0, fmt.Errorf("zmtp: send the greeting: %w", err)
	}
	if peerMinor, err = readGreeting(r); err != nil {
		return 0, err
	}
	if _, err := w.Write(appendCommand(nil, "READY", appendProperty(nil, "Socket-Type", own))); err != nil {
		return 0, fmt.Errorf("zmtp: send READY: %w", err)
	}
	f, err := readFrame(r, handshakeFrame)
	if err != nil {
		return 0, fmt.Errorf("zmtp: read READY: %w", err)
	}
	if !f.command {
		return 0, wrong("the peer sends a message before READY")
	}
	name, data, err := parseCommand(f.body)
	if err != nil {
		return 0, err
	}
	switch name {
	case "READY":
	case "ERROR":
		if len(data) > 0 {
			data = data[1:] // the length of the reason
		}
		return 0, wrong("the peer refuses: %q", data)
	default:
		return 0, wrong("the peer sends %q, want READY", name)
	}
	properties, err := parseProperties(data)
	if err != nil {
		return 0, err
	}
	if socket := properties["socket-type"]; !slices.Contains(peers, socket) {
		err := wrong("the peer is a socket of type %q, want %s", socket, strings.Join(peers, " or "))
		reason := "a " + own + " socket talks to " + strings.Join(peers, " or ") + " only"
		if _, werr := w.Write(appendCommand(nil, "ERROR", append([]byte{byte(len(reason))}, reason...))); werr != nil {
			return 0, fmt.Errorf("%w (and cannot be told: %w)", err, werr)
		}
		return 0, err
	}
	return peerMinor, nil
}
