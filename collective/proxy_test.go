package collective

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// proxied is TCP with a proxy in the middle of every connection, which delays what goes through, and can stop or reset everything.
type proxied struct {
	TCP
	delay time.Duration

	mu      sync.Mutex
	stalled chan struct{} // closed = nothing moves any more
	ends    []net.Conn
}

// Dial connects to a proxy that connects to the address.
func (p *proxied) Dial(ctx context.Context, address string) (net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		near, err := l.Accept()
		_ = l.Close()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", address)
		if err != nil {
			_ = near.Close() // the dialler sees a connection that ends, and tries again
			return
		}
		p.mu.Lock()
		p.ends = append(p.ends, near, far)
		p.mu.Unlock()
		go p.pass(far, near)
		go p.pass(near, far)
	}()
	return p.TCP.Dial(ctx, l.Addr().String())
}

// pass moves bytes one way; each arrives a delay after it was sent.
func (p *proxied) pass(dst, src net.Conn) {
	type chunk struct {
		b   []byte
		due time.Time
	}
	queue := make(chan chunk, 1024)
	go func() {
		defer close(queue)
		for {
			b := make([]byte, 32<<10)
			n, err := src.Read(b)
			if n > 0 {
				queue <- chunk{b[:n], time.Now().Add(p.delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range queue {
		select {
		case <-p.stalled:
			for range queue { // swallowed
			}
			return
		case <-time.After(time.Until(c.due)):
		}
		if _, err := dst.Write(c.b); err != nil {
			break
		}
	}
	select {
	case <-p.stalled:
	default:
		_ = dst.(*net.TCPConn).CloseWrite() // it may be gone already
	}
	for range queue {
	}
}

// reset ends every connection so that both ends see a reset.
func (p *proxied) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.ends {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// Over connections with a delay every operation works; when they stop or are reset, every rank is told that others are lost.
func TestProxiedConnections(t *testing.T) {
	for name, fail := range map[string]func(*proxied){
		"stop":  func(p *proxied) { close(p.stalled) },
		"reset": (*proxied).reset,
	} {
		t.Run(name, func(t *testing.T) {
			p := &proxied{delay: 5 * time.Millisecond, stalled: make(chan struct{})}
			t.Cleanup(p.reset)
			comms := joinAll(t, 3, true, func(cfg *Config) {
				cfg.Network, cfg.Liveness, cfg.Linger = p, 2*time.Second, -1
				cfg.Handlers = map[string]Handler{"rank": func(context.Context, *Request) (any, error) { return cfg.Rank, nil }}
			})
			each(comms, func(rank int, c *Comm) {
				for i, op := range eachOperation() {
					if err := op.run(t.Context(), c, i%len(comms)); err != nil {
						t.Errorf("%s on rank %d: %v", op.name, rank, err)
					}
				}
			})
			fail(p)
			each(comms, func(rank int, c *Comm) {
				var err error
				for err == nil {
					err = c.Barrier(t.Context())
				}
				var e *Error
				if !errors.As(err, &e) || e.Blamed < 0 || e.Blamed == rank || !errors.Is(err, ErrPeerLost) && !errors.Is(err, ErrAborted) {
					t.Errorf("rank %d: %v", rank, err)
				}
			})
		})
	}
}
