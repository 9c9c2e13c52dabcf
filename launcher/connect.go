package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

// progressInterval is how often those who wait for other nodes say so.
const progressInterval = 10 * time.Second

// dialled is the result of looking for the head once.
type dialled struct {
	conn net.Conn
	err  error
}

// connect looks for the head, and tries again until it answers.
func (a *agent) connect(ctx context.Context) (net.Conn, error) {
	wait := a.Wait
	if wait == 0 {
		wait = defaultGather
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	results := make(chan dialled, 1)
	go func() { results <- a.look(ctx, wait) }()
	progress := time.NewTicker(a.progress)
	defer progress.Stop()
	for {
		select {
		case r := <-results:
			return r.conn, r.err
		case <-progress.C:
			fmt.Fprintf(a.stderr, "fpmrun: node %d waits for an answer from %s\n", a.Node, a.Heads[0])
		case sig := <-a.signals:
			if s := sig.(syscall.Signal); ends(s) {
				cancel()
				if r := <-results; r.conn != nil {
					_ = r.conn.Close()
				}
				return nil, interrupted{s}
			}
		}
	}
}

// look dials until the head answers or ctx ends.
func (a *agent) look(ctx context.Context, wait time.Duration) dialled {
	p := collective.Peering{Token: a.Token, RunID: peeringRun}
	var last error
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		conn, err := dialAny(ctx, p, a.Heads, a.Node)
		var op *net.OpError
		switch {
		case err == nil:
			return dialled{conn: conn}
		case errors.Is(err, collective.ErrToken), !errors.As(err, &op) && !errors.Is(err, io.EOF) && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return dialled{err: fmt.Errorf("node 0 at %s: %w", a.Heads[0], err)}
		case ctx.Err() == nil || last == nil:
			last = err
		}
		retry := time.NewTimer(pause)
		select {
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return dialled{err: fmt.Errorf("node 0 does not answer at %s within %v: %w", a.Heads[0], wait, last)}
		}
	}
}

// stagger is how long an address may take before the next one is tried beside it.
const stagger = 250 * time.Millisecond

// dialAny connects to the first address that answers. The error is that of the address that came farthest.
func dialAny(ctx context.Context, p collective.Peering, addresses []string, number int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	results := make(chan dialled, len(addresses))
	for i, address := range addresses {
		go func() {
			first := time.NewTimer(time.Duration(i) * stagger)
			defer first.Stop()
			select {
			case <-first.C:
			case <-ctx.Done():
				results <- dialled{err: ctx.Err()}
				return
			}
			conn, err := p.DialPeer(ctx, address, number)
			results <- dialled{conn, err}
		}()
	}
	var failed error
	for i := range addresses {
		r := <-results
		if r.err == nil {
			cancel()
			go func() { // others that answered as well
				for range len(addresses) - i - 1 {
					if other := <-results; other.conn != nil {
						_ = other.conn.Close()
					}
				}
			}()
			return r.conn, nil
		}
		var op *net.OpError
		if failed == nil || errors.Is(r.err, collective.ErrToken) || errors.As(failed, &op) && !errors.As(r.err, &op) && ctx.Err() == nil {
			failed = r.err
		}
	}
	return nil, failed
}
