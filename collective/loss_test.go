package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fpmrun/fpmrun/collective/state"
)

func TestCancelledOperationAbortsTheOthers(t *testing.T) {
	for _, n := range worldSizes[1:] {
		comms := joinAll(t, n, false, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		each(comms, func(rank int, c *Comm) {
			if rank == 0 {
				if err := c.Barrier(ctx); !errors.Is(err, ErrAborted) {
					t.Errorf("%d ranks: the rank that gave up: %v", n, err)
				}
				return
			}
			err := c.Barrier(t.Context())
			var e *Error
			if !errors.Is(err, ErrAborted) || !errors.As(err, &e) || e.Blamed != 0 {
				t.Errorf("%d ranks, rank %d: %v", n, rank, err)
			}
		})
	}
}

// A rank that is in no operation when another one is lost blames it with its next one, where the launcher reads it. One that begins no other has no reason to blame anybody:
// it may be the one that let the others down.
func TestLossBetweenOperationsIsBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := joinAll(t, 3, false, func(cfg *Config) { cfg.Spin = -1 })
		comms[2].w.shut(false)
		synctest.Wait()
		if s := comms[1].w.page.Snapshot(); s.ErrKind != state.KindNone {
			t.Errorf("a rank in no operation: %+v", s)
		}
		for rank, c := range comms[:2] {
			if err := c.Barrier(t.Context()); !errors.Is(err, ErrPeerLost) {
				t.Errorf("rank %d: %v", rank, err)
			}
			if s := c.w.page.Snapshot(); s.ErrKind != state.KindPeerLost || s.Blamed != 2 {
				t.Errorf("rank %d: %+v", rank, s)
			}
		}
	})
}

// What a rank sent before it left is received, also where the receiver has not looked at its connection before it knows that the sender has left.
func TestMessageOfALeaver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range worldSizes[1:] {
			comms := joinAll(t, n, false, func(cfg *Config) { cfg.Spin = -1 })
			var sender sync.WaitGroup
			sender.Go(func() {
				if err := Send(t.Context(), comms[n-1], 0, []byte("last words")); err != nil {
					t.Errorf("%d ranks: %v", n, err)
				}
				_ = comms[n-1].Close() // what it says of the others does not matter here
			})
			synctest.Wait()
			if b, err := Recv(t.Context(), comms[0], n-1); err != nil || string(b) != "last words" {
				t.Errorf("%d ranks: %q, %v", n, b, err)
			}
			each(comms, func(_ int, c *Comm) { c.Close() })
			sender.Wait()
		}
	})
}

func TestWrongTokenIsRefused(t *testing.T) {
	memory := NewMemory(0, 0)
	join := func(rank int, token string, limit time.Duration) error {
		c, err := Join(t.Context(), Config{Rank: rank, Size: 2, Rendezvous: "host0:1", Token: Secret(token), RunID: "x", JoinTimeout: limit,
			Network: memory.Host(fmt.Sprintf("host%d", rank))})
		if err == nil {
			c.Close()
		}
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := join(0, "0123456789abcdef", 500*time.Millisecond); !errors.Is(err, ErrTimeout) {
			t.Errorf("rank 0: %v", err)
		}
	})
	wg.Go(func() {
		if err := join(1, "fedcba9876543210", 400*time.Millisecond); err == nil {
			t.Error("a rank with another token joined")
		}
	})
	wg.Wait()
}

// Whoever waits for a rank that leaves is told at once, not at a limit: in Recv, in an operation, and in a group of its own.
func TestLeaverIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := joinAll(t, 5, false, func(cfg *Config) { cfg.Linger, cfg.Spin = time.Minute, -1 })
		begin := time.Now()
		each(comms, func(rank int, c *Comm) {
			var err error
			switch rank {
			case 1: // leaves while the others still need it
				time.Sleep(time.Second)
				_ = c.Close() // what it says of the others does not matter here
				return
			case 2:
				_, err = Recv(t.Context(), c, 1)
			default:
				err = c.Barrier(t.Context())
			}
			if !errors.Is(err, ErrPeerLost) || !strings.Contains(err.Error(), "left normally") || !strings.Contains(err.Error(), "rank 1") {
				t.Errorf("rank %d: %v", rank, err)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("rank %d was told after %v", rank, took)
			}
			_ = c.Close()
		})
	})
}

// A second loss behind the hole that the first one left in the tree of control connections reaches every rank as well.
func TestSecondLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Millisecond, 0)
		comms := joinAll(t, 8, false, func(cfg *Config) { cfg.Network, cfg.Spin = memory.Host(fmt.Sprintf("host%d", cfg.Rank)), -1 })
		group := make([]*Comm, len(comms))
		each(comms, func(rank int, c *Comm) {
			color := 0
			if rank == 4 { // the parent of 5 and 6, which is the parent of 7
				color = 1
			}
			var err error
			if group[rank], err = c.Split(t.Context(), color, 0); err != nil {
				t.Error(err)
			}
		})
		memory.Kill("host4")
		time.Sleep(time.Second)
		memory.Kill("host6")
		begin := time.Now()
		each(group, func(rank int, c *Comm) {
			if rank == 4 || rank == 6 {
				return
			}
			err := c.Barrier(t.Context())
			var e *Error
			if !errors.As(err, &e) || e.Blamed != 6 {
				t.Errorf("rank %d: %v", rank, err)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("rank %d was told after %v", rank, took)
			}
		})
		each(comms, func(_ int, c *Comm) { _ = c.Close() })
	})
}

// A closed world leaves no goroutine behind, whatever its ranks were doing: a bubble that has one left never ends.
func TestCloseWhileOthersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comms := joinAll(t, 5, false, func(cfg *Config) {
			cfg.Spin = -1
			cfg.Handlers = map[string]Handler{"wait": func(ctx context.Context, _ *Request) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
		})
		each(comms, func(rank int, c *Comm) {
			switch rank {
			case 0, 1:
				err := c.Barrier(t.Context())
				if !errors.Is(err, ErrPeerLost) && !errors.Is(err, ErrAborted) {
					t.Errorf("rank %d: %v", rank, err)
				}
			case 2:
				if err := c.Call(t.Context(), 3, "wait", nil, nil); err == nil {
					t.Error("a call that was never answered succeeded")
				}
			case 3:
				time.Sleep(time.Second)
			}
			_ = c.Close()
			if err := c.Barrier(t.Context()); err == nil {
				t.Errorf("rank %d: a barrier after Close", rank)
			}
			if err := c.Call(t.Context(), 0, "wait", nil, nil); !errors.Is(err, ErrClosed) && !errors.Is(err, ErrPeerLost) {
				t.Errorf("rank %d: a call after Close: %v", rank, err)
			}
		})
	})
}
