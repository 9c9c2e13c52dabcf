package collective

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// errAgain is what a try returns when it would have to wait.
var errAgain = errors.New("collective: would wait")

// stream is a connection that one goroutine reads and writes, trying before it waits.
type stream interface {
	// tryRead and tryWrite move what can be moved now, at least one byte, or return errAgain.
	tryRead(p []byte) (int, error)
	tryWrite(p []byte) (int, error)
	// arm sets when the next waits end (zero = never) and takes back an earlier wake. The caller arms, then looks for
	// interruptions, then waits: a wake that it cannot have seen yet then ends the wait.
	arm(until time.Time) error
	// readWait and writeWait sleep until bytes moved, the armed time has come or wake was called. The
	// last two return an error that isWake accepts.
	readWait(p []byte) (int, error)
	writeWait(p []byte) (int, error)
	// bothWait sleeps until this stream is writable or the other readable. It may return early.
	bothWait(readable stream, until time.Time) error
	// wake ends the pending and every later wait until the next arm. Any goroutine may call it.
	wake()
	Close() error
}

func isWake(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// netStream is a stream over any net.Conn with a file descriptor. It is closed by the goroutine that reads and writes it, or when
// there is none.
type netStream struct {
	net.Conn
	fd int
}

// newStream wraps a connection: without a descriptor it must be a stream itself (in-memory connections are), or encrypted.
func (w *world) newStream(c net.Conn) (stream, error) {
	if s, ok := c.(stream); ok {
		return s, nil
	}
	if secure, ok := c.(*tls.Conn); ok {
		return w.pump(secure), nil
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.New("collective: connection without file descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &netStream{Conn: c}
	if err := raw.Control(func(fd uintptr) { s.fd = int(fd) }); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *netStream) tryRead(p []byte) (int, error) { return tryRead(s.fd, p) }

func (s *netStream) tryWrite(p []byte) (int, error) { return tryWrite(s.fd, p) }

func (s *netStream) arm(until time.Time) error { return s.SetDeadline(until) }

func (s *netStream) readWait(p []byte) (int, error) {
	n, err := s.Read(p)
	if n > 0 {
		return n, nil
	}
	return 0, err
}

func (s *netStream) writeWait(p []byte) (int, error) {
	n, err := s.Write(p)
	if n > 0 {
		return n, nil
	}
	return 0, err
}

func (s *netStream) bothWait(readable stream, until time.Time) error {
	r, ok := readable.(*netStream)
	if !ok {
		return errors.New("collective: two kinds of connections in one group")
	}
	return pollBoth(r.fd, s.fd, until)
}

func (s *netStream) wake() {
	// A failure means that the connection is closed, which ends the wait as well.
	_ = s.SetDeadline(longAgo)
}
