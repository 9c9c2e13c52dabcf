package collective

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The handshake, before anything else is parsed. The dialler sends a hello of 128 bytes; the acceptor answers with
// 128 bytes, the last 32 of which are its MAC; the dialler sends its own MAC of 32 bytes; the acceptor sends a last
// status byte. Both MACs are HMAC-SHA-256 with the token over a label of their direction, the hello and the answer
// without its MAC, so they cover the version, run, epoch, ranks, group, purpose and both nonces. docs/protocol.md
// has the layouts.

const (
	protocolVersion = 2
	helloSize       = 128
	nonceSize       = 32
	macSize         = sha256.Size
)

var helloMagic = [4]byte{'F', 'P', 'M', 'C'}

// purpose is what a connection is for.
type purpose uint8

const (
	forJoin purpose = 1 + iota
	forControl
	forData
	forPeer // outside any world, see ServePeers
)

// status is the acceptor's answer. Crosses the wire: append only.
type status uint8

const (
	statusOK        status = iota
	statusVersion          // another protocol version
	statusRun              // another run
	statusEpoch            // another world of the same run; try again
	statusBusy             // not now; try again
	statusCrossed          // both sides dialled; the acceptor's own connection survives
	statusDuplicate        // a live connection for the same purpose exists
	statusMember           // rank or size do not fit
	statusMAC              // the dialler's MAC is wrong
	statusTLS              // one side wants TLS, the other does not
)

var statusText = [...]string{"ok", "other protocol version", "other run id", "other world of the run", "busy",
	"crossed", "another process has this rank", "rank or world size do not fit", "wrong token",
	"one side wants TLS and the other does not (Config.TLS)"}

// String says the status in words.
func (s status) String() string {
	if int(s) < len(statusText) {
		return statusText[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// hello is the dialler's first message.
type hello struct {
	Version  uint16
	Purpose  purpose
	TLS      bool   // the connection goes on under TLS
	Dialler  uint32 // world rank
	Acceptor uint32 // world rank
	Size     uint32
	PID      uint32
	Epoch    uint64 // 0 in forJoin
	Group    uint64 // forData
	Run      [16]byte
	Nonce    [nonceSize]byte
}

// answer is the acceptor's.
type answer struct {
	Version uint16
	Status  status
	PID     uint32 // of the acceptor; with statusDuplicate, of the process that has the rank
	Epoch   uint64
	Nonce   [nonceSize]byte
	MAC     [macSize]byte
}

func runHash(runID string) (h [16]byte) {
	sum := sha256.Sum256([]byte(runID))
	copy(h[:], sum[:])
	return h
}

func newNonce() (n [nonceSize]byte) {
	rand.Read(n[:]) // never fails: crypto/rand ends the program instead
	return n
}

func (h *hello) encode() []byte {
	b := make([]byte, helloSize)
	copy(b, helloMagic[:])
	binary.LittleEndian.PutUint16(b[4:], h.Version)
	b[6] = byte(h.Purpose)
	if h.TLS {
		b[7] = 1
	}
	binary.LittleEndian.PutUint32(b[8:], h.Dialler)
	binary.LittleEndian.PutUint32(b[12:], h.Acceptor)
	binary.LittleEndian.PutUint32(b[16:], h.Size)
	binary.LittleEndian.PutUint32(b[20:], h.PID)
	binary.LittleEndian.PutUint64(b[24:], h.Epoch)
	binary.LittleEndian.PutUint64(b[32:], h.Group)
	copy(b[40:], h.Run[:])
	copy(b[56:], h.Nonce[:])
	return b
}

func decodeHello(b []byte) (hello, error) {
	if len(b) != helloSize || !bytes.Equal(b[:4], helloMagic[:]) {
		return hello{}, errors.New("collective: not a hello")
	}
	h := hello{
		Version: binary.LittleEndian.Uint16(b[4:]), Purpose: purpose(b[6]), TLS: b[7] == 1,
		Dialler: binary.LittleEndian.Uint32(b[8:]), Acceptor: binary.LittleEndian.Uint32(b[12:]),
		Size: binary.LittleEndian.Uint32(b[16:]), PID: binary.LittleEndian.Uint32(b[20:]),
		Epoch: binary.LittleEndian.Uint64(b[24:]), Group: binary.LittleEndian.Uint64(b[32:]),
	}
	copy(h.Run[:], b[40:])
	copy(h.Nonce[:], b[56:])
	if h.Purpose < forJoin || h.Purpose > forPeer {
		return hello{}, fmt.Errorf("collective: hello for unknown purpose %d", h.Purpose)
	}
	if b[7] > 1 {
		return hello{}, fmt.Errorf("collective: hello with unknown flags %#x", b[7])
	}
	return h, nil
}

func (a *answer) encode() []byte {
	b := make([]byte, helloSize)
	copy(b, helloMagic[:])
	binary.LittleEndian.PutUint16(b[4:], a.Version)
	b[6] = byte(a.Status)
	binary.LittleEndian.PutUint32(b[8:], a.PID)
	binary.LittleEndian.PutUint64(b[16:], a.Epoch)
	copy(b[24:], a.Nonce[:])
	copy(b[helloSize-macSize:], a.MAC[:])
	return b
}

func decodeAnswer(b []byte) (answer, error) {
	if len(b) != helloSize || !bytes.Equal(b[:4], helloMagic[:]) {
		return answer{}, errors.New("collective: not an answer to a hello")
	}
	a := answer{Version: binary.LittleEndian.Uint16(b[4:]), Status: status(b[6]),
		PID: binary.LittleEndian.Uint32(b[8:]), Epoch: binary.LittleEndian.Uint64(b[16:])}
	copy(a.Nonce[:], b[24:])
	copy(a.MAC[:], b[helloSize-macSize:])
	return a, nil
}

// handshakeMAC authenticates one direction over everything both sides have said.
func handshakeMAC(token []byte, label string, hello, answer []byte) (m [macSize]byte) {
	h := hmac.New(sha256.New, token)
	h.Write([]byte(label))
	h.Write(hello)
	h.Write(answer[:helloSize-macSize])
	h.Sum(m[:0])
	return m
}

const (
	acceptorLabel = "fpm handshake, acceptor"
	diallerLabel  = "fpm handshake, dialler"
)

var errListener = errors.New("collective: handshake: the listener does not know the token")

// refusal is a handshake that ended with another status than statusOK.
type refusal struct {
	status  status
	pid     uint32
	version uint16
}

func (r *refusal) Error() string {
	switch r.status {
	case statusVersion:
		return fmt.Sprintf("collective: handshake: protocol version %d there, %d here", r.version, protocolVersion)
	case statusDuplicate:
		return fmt.Sprintf("collective: handshake: pid %d has this rank already", r.pid)
	}
	return "collective: handshake refused: " + r.status.String()
}

// retry reports whether the dialler should try again: the acceptor belongs to another world on
// the same port, or is not ready.
func (r *refusal) retry() bool {
	return r.status == statusRun || r.status == statusEpoch || r.status == statusBusy
}

// dialHandshake authenticates both sides on a fresh connection, as the dialler. It returns the acceptor's answer.
func dialHandshake(rw io.ReadWriter, token []byte, h hello) (answer, error) {
	h.Version, h.Nonce = protocolVersion, newNonce()
	first := h.encode()
	if _, err := rw.Write(first); err != nil {
		return answer{}, err
	}
	second := make([]byte, helloSize)
	if _, err := io.ReadFull(rw, second); err != nil {
		return answer{}, err
	}
	a, err := decodeAnswer(second)
	if err != nil {
		return answer{}, err
	}
	if a.Status == statusVersion {
		return a, &refusal{a.Status, a.PID, a.Version}
	}
	want := handshakeMAC(token, acceptorLabel, first, second)
	if !hmac.Equal(want[:], a.MAC[:]) {
		if a.Status != statusOK {
			return a, &refusal{a.Status, a.PID, a.Version}
		}
		return a, errListener
	}
	if a.Status != statusOK {
		return a, &refusal{a.Status, a.PID, a.Version}
	}
	mine := handshakeMAC(token, diallerLabel, first, second)
	if _, err := rw.Write(mine[:]); err != nil {
		return a, err
	}
	var last [1]byte
	if _, err := io.ReadFull(rw, last[:]); err != nil {
		return a, err
	}
	if s := status(last[0]); s != statusOK {
		return a, &refusal{s, a.PID, a.Version}
	}
	return a, nil
}

// acceptHandshake authenticates both sides on a fresh connection, as the acceptor. judge sees the
// hello before anything is proven and may refuse it; admit sees it when the dialler is known to have the token, and its
// answer is the last status. Reads at most helloSize + macSize bytes.
func acceptHandshake(rw io.ReadWriter, token []byte, judge func(hello) answer, admit func(hello) status) (hello, error) {
	first := make([]byte, helloSize)
	if _, err := io.ReadFull(rw, first); err != nil {
		return hello{}, err
	}
	h, err := decodeHello(first)
	if err != nil {
		return h, err
	}
	a := judge(h)
	a.Version, a.Nonce = protocolVersion, newNonce()
	if h.Version != protocolVersion {
		a.Status = statusVersion
	}
	second := a.encode()
	a.MAC = handshakeMAC(token, acceptorLabel, first, second)
	copy(second[helloSize-macSize:], a.MAC[:])
	if _, err := rw.Write(second); err != nil {
		return h, err
	}
	if a.Status != statusOK {
		return h, &refusal{a.Status, a.PID, h.Version}
	}
	var got [macSize]byte
	if _, err := io.ReadFull(rw, got[:]); err != nil {
		return h, err
	}
	want := handshakeMAC(token, diallerLabel, first, second)
	last := statusMAC
	if hmac.Equal(want[:], got[:]) {
		last = admit(h)
	}
	if _, err := rw.Write([]byte{byte(last)}); err != nil {
		return h, err
	}
	if last != statusOK {
		return h, &refusal{last, h.PID, h.Version}
	}
	return h, nil
}
