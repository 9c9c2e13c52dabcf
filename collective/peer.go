package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// ErrToken says that the two ends of a connection do not have the same secret.
var ErrToken = errors.New("collective: the other side has another token")

// Peering is what two processes outside any world must agree on to trust a connection between them: launchers of several
// hosts, for example. They prove it with the handshake that ranks use.
type Peering struct {
	Token Secret // at least 16 bytes
	RunID string // name of what they do together; peers of another one refuse each other
	TLS   TLS    // of the dialler: which connections are encrypted after the handshake
}

// DialPeer connects to an address ("host:port", "[v6]:port") where ServePeers listens, and authenticates both sides. number tells
// the other side which peer this is. The error is ErrToken where the secrets differ; one that wraps a *net.OpError means that
// nobody listens there.
func (p Peering) DialPeer(ctx context.Context, address string, number int) (net.Conn, error) {
	conn, err := TCP{}.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longAgo) })
	secure, err := p.introduce(ctx, conn, number)
	stop()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// introduce authenticates both sides of a fresh connection, as its dialler.
func (p Peering) introduce(ctx context.Context, conn net.Conn, number int) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return nil, err
	}
	h := hello{Purpose: forPeer, TLS: p.TLS.wanted(conn), Dialler: uint32(number), PID: uint32(os.Getpid()), Run: runHash(p.RunID)}
	if _, err := dialHandshake(conn, p.Token, h); err != nil {
		var r *refusal
		if errors.Is(err, errListener) || errors.As(err, &r) && r.status == statusMAC {
			return nil, ErrToken
		}
		return nil, err
	}
	if h.TLS {
		secure, err := p.encrypt(ctx, conn, true)
		if err != nil {
			return nil, err
		}
		return secure, conn.SetDeadline(time.Time{})
	}
	return conn, conn.SetDeadline(time.Time{})
}

func (p Peering) encrypt(ctx context.Context, conn net.Conn, dialled bool) (net.Conn, error) {
	cfg, err := newTLS(p.Token, p.RunID)
	if err != nil {
		return nil, fmt.Errorf("collective: TLS: %w", err)
	}
	return encrypted(ctx, conn, cfg, dialled)
}

// ServePeers authenticates what connects until the listener is closed, and hands each connection that proved itself to
// admitted with the number that its dialler gave; refused hears of the others. Both may be called at once from several goroutines, all
// of which have ended when ServePeers returns. The end of ctx ends handshakes that are under way.
func (p Peering) ServePeers(ctx context.Context, ln net.Listener, admitted func(conn net.Conn, number int), refused func(from net.Addr, err error)) {
	var unproven waiting
	var handshakes sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil { // out of descriptors, most likely: let others finish
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		unproven.add(conn)
		handshakes.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			secure, number, err := p.accept(ctx, conn)
			stop()
			unproven.remove(conn)
			if err != nil {
				_ = conn.Close()
				refused(conn.RemoteAddr(), err)
				return
			}
			admitted(secure, number)
		})
	}
	cancel()
	handshakes.Wait()
}

// accept authenticates both sides of a fresh connection, as its acceptor.
func (p Peering) accept(ctx context.Context, conn net.Conn) (net.Conn, int, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return nil, 0, err
	}
	h, err := acceptHandshake(conn, p.Token, func(h hello) answer {
		a := answer{PID: uint32(os.Getpid())}
		switch {
		case h.Purpose != forPeer:
			a.Status = statusMember
		case h.Run != runHash(p.RunID):
			a.Status = statusRun
		}
		return a
	}, func(hello) status { return statusOK })
	if err != nil {
		return nil, 0, err
	}
	secure := conn
	if h.TLS {
		if secure, err = p.encrypt(ctx, conn, false); err != nil {
			return nil, 0, err
		}
	}
	return secure, int(h.Dialler), conn.SetDeadline(time.Time{})
}
