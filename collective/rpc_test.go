package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCallAll(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		n := len(comms)
		hang := make(chan struct{})
		defer close(hang)
		each(comms, func(rank int, c *Comm) {
			err := c.Handle("square", func(ctx context.Context, req *Request) (any, error) {
				var v int
				if err := req.Decode(&v); err != nil {
					return nil, err
				}
				switch {
				case rank == 1:
					select { // a handler that never answers
					case <-hang:
					case <-ctx.Done():
					}
					return nil, ctx.Err()
				case rank == 2:
					panic("no")
				case rank == 3:
					return nil, fmt.Errorf("rank 3 does not want to")
				}
				return v * (rank + 1), nil
			})
			if err != nil {
				t.Error(err)
			}
			if err := c.Barrier(t.Context()); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		replies := comms[0].CallAll(ctx, "square", 3)
		if len(replies) != n {
			t.Fatalf("%d replies from %d ranks", len(replies), n)
		}
		for rank, r := range replies {
			var v int
			err := r.Decode(&v)
			switch rank {
			case 1:
				if !errors.Is(err, ErrTimeout) {
					t.Errorf("the rank that hangs: %v", err)
				}
			case 2, 3:
				if !errors.Is(err, ErrRemote) {
					t.Errorf("rank %d: %v", rank, err)
				}
			default:
				if err != nil || v != 3*(rank+1) {
					t.Errorf("rank %d: %d (%v)", rank, v, err)
				}
			}
		}
		if err := comms[0].Call(t.Context(), n-1, "nothing", nil, nil); !errors.Is(err, ErrUnknownMethod) {
			t.Errorf("unknown method: %v", err)
		}
	})
}

// called runs a test in a bubble with a world of n ranks that have these handlers.
func called(t *testing.T, n int, handlers map[string]Handler, f func(t *testing.T, comms []*Comm)) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Millisecond, 0)
		comms := joinAll(t, n, false, func(cfg *Config) {
			cfg.Network, cfg.Handlers, cfg.Spin = memory.Host(fmt.Sprintf("host%d", cfg.Rank)), handlers, -1
		})
		f(t, comms)
		each(comms, func(_ int, c *Comm) {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

func echo(_ context.Context, req *Request) (any, error) {
	var n int
	return &n, req.Decode(&n)
}

// A reply that comes after its call was given up answers no later call, and is counted.
func TestLateReply(t *testing.T) {
	late := make(chan struct{})
	handlers := map[string]Handler{"echo": echo, "late": func(context.Context, *Request) (any, error) { <-late; return -1, nil }}
	called(t, 2, handlers, func(t *testing.T, comms []*Comm) {
		late = make(chan struct{}) // one of the bubble
		var n int
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := comms[0].Call(ctx, 1, "late", nil, &n); !errors.Is(err, ErrTimeout) {
			t.Errorf("a call without an answer: %v", err)
		}
		close(late)
		for i := range 10 {
			if err := comms[0].Call(t.Context(), 1, "echo", i, &n); err != nil || n != i {
				t.Errorf("call %d was answered %d (%v)", i, n, err)
			}
		}
		if got := comms[0].w.late.Load(); got != 1 {
			t.Errorf("%d late replies counted, want 1", got)
		}
	})
}

// What a rank answers is told apart, and no rank's answer hides another's.
func TestKindsOfReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []Handler{
			func(context.Context, *Request) (any, error) { return 7, nil },
			func(_ context.Context, req *Request) (any, error) {
				for range 3 {
					req.Respond(Raw{7})
				}
				return nil, nil
			},
			func(context.Context, *Request) (any, error) { return Raw{0xc1}, nil }, // no msgpack
			func(context.Context, *Request) (any, error) { return make(chan int), nil },
			func(context.Context, *Request) (any, error) { return nil, fmt.Errorf("shard: %w", ErrMalformed) },
			func(context.Context, *Request) (any, error) { panic("no") },
			func(ctx context.Context, _ *Request) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
			func(context.Context, *Request) (any, error) { return "seven", nil },
		}
		comms := joinAll(t, len(answers)+1, false, func(cfg *Config) {
			if cfg.Rank < len(answers) {
				cfg.Handlers = map[string]Handler{"ask": answers[cfg.Rank]}
			}
		})
		for _, c := range comms {
			c.Ready()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		replies := comms[0].CallAll(ctx, "ask", nil)
		want := []error{nil, nil, ErrMalformed, ErrMalformed, ErrMalformed, ErrRemote, ErrTimeout, ErrMalformed, ErrUnknownMethod}
		for rank, r := range replies {
			var n int
			err := r.Decode(&n)
			if !errors.Is(err, want[rank]) || err == nil && n != 7 {
				t.Errorf("rank %d: %d (%v), want %v", rank, n, err, want[rank])
			}
			if more := 2 * btoi(rank == 1); r.Rank != rank || r.Duplicates != more {
				t.Errorf("reply %d is of rank %d with %d duplicates, want %d", rank, r.Rank, r.Duplicates, more)
			}
		}
		if err := comms[0].Call(ctx, 0, "ask", make(chan int), nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("arguments that cannot be encoded: %v", err)
		}
		each(comms, func(_ int, c *Comm) {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// At most 64 handlers run on a rank; further calls wait and are served.
func TestHandlersAreLimited(t *testing.T) {
	var running, most atomic.Int64
	handlers := map[string]Handler{"slow": func(context.Context, *Request) (any, error) {
		now := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		time.Sleep(time.Second)
		return nil, nil
	}}
	called(t, 2, handlers, func(t *testing.T, comms []*Comm) {
		begin := time.Now()
		var wg sync.WaitGroup
		for range 3 * maxHandlers {
			wg.Go(func() {
				if err := comms[0].Call(t.Context(), 1, "slow", nil, nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); most.Load() != maxHandlers || took < 3*time.Second || took > 4*time.Second {
			t.Errorf("%d handlers ran at once, all were done after %v", most.Load(), took)
		}
	})
}

// A caller's deadline and its giving up reach the handler.
func TestCancellationReachesTheHandler(t *testing.T) {
	ended := make(chan error, 1)
	var limit time.Duration
	handlers := map[string]Handler{"wait": func(ctx context.Context, _ *Request) (any, error) {
		if d, ok := ctx.Deadline(); ok {
			limit = time.Until(d)
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, nil
	}}
	called(t, 2, handlers, func(t *testing.T, comms []*Comm) {
		ended = make(chan error, 1) // one of the bubble
		for callee := range comms {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			time.AfterFunc(time.Second, cancel)
			if err := comms[0].Call(ctx, callee, "wait", nil, nil); !errors.Is(err, ErrAborted) {
				t.Errorf("the caller that gave up: %v", err)
			}
			begin := time.Now()
			if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(begin) > time.Second {
				t.Errorf("the handler was told %v after %v", err, time.Since(begin))
			}
			if limit < 9*time.Second || limit > 10*time.Second {
				t.Errorf("the handler has %v of the caller's 10s", limit)
			}
		}
	})
}

// Where every rank's answer is needed the first failure ends the call, and names the rank.
func TestCallEvery(t *testing.T) {
	called(t, 5, map[string]Handler{"echo": echo}, func(t *testing.T, comms []*Comm) {
		for rank, c := range comms {
			if err := c.Handle("wait", func(ctx context.Context, req *Request) (any, error) {
				var bad int
				if err := req.Decode(&bad); err != nil || bad == rank {
					return nil, fmt.Errorf("rank %d has no cache", bad)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}); err != nil {
				t.Fatal(err)
			}
		}
		replies, err := comms[2].CallEvery(t.Context(), "echo", 9)
		if err != nil || len(replies) != 5 {
			t.Fatalf("%d replies (%v)", len(replies), err)
		}
		for bad := range comms {
			begin := time.Now()
			_, err := comms[2].CallEvery(t.Context(), "wait", bad)
			var e *Error
			if !errors.Is(err, ErrRemote) || !errors.As(err, &e) || e.Blamed != bad || time.Since(begin) > time.Second {
				t.Errorf("rank %d failed: %v after %v", bad, err, time.Since(begin))
			}
		}
	})
}

// Calls with long bodies and operations of two groups go on side by side, and nobody gets another's bytes.
func TestCallsBesideOperations(t *testing.T) {
	for _, n := range []int{2, 5} {
		comms := joinAll(t, n, true, func(cfg *Config) {
			cfg.Handlers = map[string]Handler{"echo": func(_ context.Context, req *Request) (any, error) { return Raw(req.Args), nil }}
		})
		each(comms, func(rank int, c *Comm) {
			twin, err := c.Dup(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			var wg sync.WaitGroup
			for k, g := range []*Comm{c, twin} {
				wg.Go(func() {
					for i := range 50 {
						data := []int64{int64(rank + k), int64(i)}
						if err := AllReduceInto(t.Context(), g, data, data, Sum); err != nil || data[0] != int64(n*(n-1)/2+k*n) || data[1] != int64(n*i) {
							t.Errorf("rank %d, group %d, turn %d: %v (%v)", rank, k, i, data, err)
							return
						}
					}
				})
			}
			wg.Go(func() {
				for i := range 20 {
					sent := content(rank, 50_000+i)
					var got []byte
					if err := c.Call(t.Context(), (rank+i)%n, "echo", sent, &got); err != nil || !bytes.Equal(sent, got) {
						t.Errorf("rank %d, call %d: %d bytes came back (%v)", rank, i, len(got), err)
						return
					}
				}
			})
			wg.Wait()
		})
	}
}
