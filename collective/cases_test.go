package collective

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Cases from bug reports of other launchers and libraries, by number.

// inVirtualTime runs a case in virtual time, in a world of n ranks with a millisecond between them.
func inVirtualTime(t *testing.T, n int, f func(t *testing.T, memory *Memory, comms []*Comm)) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Millisecond, 0)
		f(t, memory, joinAll(t, n, false, func(cfg *Config) {
			cfg.Network, cfg.Spin, cfg.CPUs = memory.Host(fmt.Sprintf("host%d", cfg.Rank)), -1, n
		}))
	})
}

// Rank 0 dies while the others are in an allreduce: they are told at once, not at the time limit.
func TestCase02AbortBesideAnAllReduce(t *testing.T) {
	inVirtualTime(t, 4, func(t *testing.T, memory *Memory, comms []*Comm) {
		time.AfterFunc(time.Second, func() { memory.Kill("host0") })
		begin := time.Now()
		each(comms[1:], func(_ int, c *Comm) {
			_, err := AllReduce(t.Context(), c, []float64{1}, Sum)
			var e *Error
			if !errors.Is(err, ErrPeerLost) && !errors.Is(err, ErrAborted) || !errors.As(err, &e) || e.Blamed != 0 {
				t.Errorf("rank %d: %v", c.Rank(), err)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("rank %d was told after %v", c.Rank(), took)
			}
		})
		each(comms, func(_ int, c *Comm) { _ = c.Close() })
	})
}

// Rank 3 has left normally while the others are in a barrier that includes it.
func TestCase08EarlyLeaver(t *testing.T) {
	inVirtualTime(t, 4, func(t *testing.T, _ *Memory, comms []*Comm) {
		begin := time.Now()
		each(comms, func(rank int, c *Comm) {
			if err := c.Barrier(t.Context()); err != nil {
				t.Error(err)
			}
			if rank != 3 {
				err := c.Barrier(t.Context())
				if !errors.Is(err, ErrPeerLost) || !strings.Contains(err.Error(), "rank 3 left normally before barrier #2") {
					t.Errorf("rank %d: %v", rank, err)
				}
				if took := time.Since(begin); took > time.Second {
					t.Errorf("rank %d was told after %v", rank, took)
				}
			}
			_ = c.Close()
		})
	})
}

// Rank 0, which everybody met at, is done first: it stays until the others are done as well, and nobody sees a broken connection.
func TestCase10Rank0IsDoneFirst(t *testing.T) {
	comms := joinAll(t, 4, true, nil)
	last := make(chan struct{})
	each(comms, func(rank int, c *Comm) {
		others, err := c.Split(t.Context(), min(rank, 1), 0)
		if err != nil {
			t.Error(err)
		}
		if err := c.Barrier(t.Context()); err != nil {
			t.Error(err)
		}
		if rank == 0 {
			close(last)
		} else {
			<-last
			for range 100 {
				if err := others.Barrier(t.Context()); err != nil {
					t.Errorf("rank %d, after rank 0 was done: %v", rank, err)
				}
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	})
}

// A handler that never returns costs its own answer only; it is told to stop, and what it says later answers nothing.
func TestCase12HandlerThatNeverReturns(t *testing.T) {
	inVirtualTime(t, 4, func(t *testing.T, _ *Memory, comms []*Comm) {
		told := make(chan struct{})
		for rank, c := range comms {
			if err := c.Handle("ask", func(ctx context.Context, req *Request) (any, error) {
				var n int
				if err := req.Decode(&n); err != nil {
					return nil, err
				}
				if rank == 1 && n == 0 {
					<-ctx.Done()
					close(told)
					return -1, nil
				}
				return 10*n + rank, nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		replies := comms[0].CallAll(ctx, "ask", 0)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("answered after %v", took)
		}
		for rank, r := range replies {
			var n int
			if err := r.Decode(&n); rank == 1 && !errors.Is(err, ErrTimeout) || rank != 1 && (err != nil || n != rank) {
				t.Errorf("rank %d: %d (%v)", rank, n, err)
			}
		}
		<-told
		for rank, r := range comms[0].CallAll(t.Context(), "ask", 1) {
			var n int
			if err := r.Decode(&n); err != nil || n != 10+rank {
				t.Errorf("the next call: rank %d: %d (%v)", rank, n, err)
			}
		}
		each(comms, func(_ int, c *Comm) {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// A rank that catches every error and goes on gets the first one again, at once, and the others know within a heartbeat.
func TestCase13ErrorsThatAreCaught(t *testing.T) {
	inVirtualTime(t, 4, func(t *testing.T, _ *Memory, comms []*Comm) {
		given, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		each(comms, func(rank int, c *Comm) {
			ctx := t.Context()
			if rank == 1 {
				ctx = given
			}
			first := c.Barrier(ctx)
			var e *Error
			if !errors.Is(first, ErrAborted) || !errors.As(first, &e) || rank != 1 && e.Blamed != 1 {
				t.Errorf("rank %d: %v", rank, first)
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("rank %d was told after %v", rank, took)
			}
			again := time.Now()
			for range 1000 {
				if err := c.Barrier(t.Context()); !errors.Is(err, ErrAborted) {
					t.Fatalf("rank %d, in a loop: %v", rank, err)
				}
			}
			if time.Since(again) != 0 {
				t.Errorf("rank %d: errors that are known took %v", rank, time.Since(again))
			}
		})
		each(comms, func(_ int, c *Comm) { _ = c.Close() })
	})
}

// A peer with another key sends a well-formed call: nothing of it is decoded.
func TestCase29WrongKey(t *testing.T) {
	comms := joinAll(t, 2, true, func(cfg *Config) {
		cfg.Handlers = map[string]Handler{"run": func(context.Context, *Request) (any, error) {
			t.Error("a stranger's call was served")
			return nil, nil
		}}
	})
	w := comms[0].w
	conn, err := net.Dial("tcp", w.table[0].Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h := hello{Version: protocolVersion, Purpose: forControl, Dialler: 1, Size: 2, PID: 4711, Epoch: w.epoch, Run: runHash(w.cfg.RunID), Nonce: newNonce()}
	first, second := h.encode(), make([]byte, helloSize)
	if _, err := conn.Write(first); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, second); err != nil {
		t.Fatal(err)
	}
	mac := handshakeMAC([]byte("fedcba9876543210"), diallerLabel, first, second)
	call := encodeCall(0, 0, "run", nil)
	header := make([]byte, frameHeader)
	frame{Type: frameCall, Len: uint32(len(call)), ID: 1, Total: uint64(len(call))}.encode(header)
	if _, err := conn.Write(append(append(mac[:], header...), call...)); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(conn) // a reset is as good as an end
	if len(said) > 1 || len(said) == 1 && status(said[0]) != statusMAC {
		t.Errorf("the stranger was told % x", said)
	}
	for w.refused.Load() == 0 { // counted right after
	}
	each(comms, func(_ int, c *Comm) {
		if err := c.Barrier(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// One process of a world of four is alone: it says who is missing, and does not take itself for a world of one.
func TestCase36LonelyRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Join(t.Context(), Config{Size: 4, Rendezvous: "host0:1", Token: Secret("0123456789abcdef"), JoinTimeout: time.Minute,
			Network: NewMemory(0, 0).Host("host0")})
		if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "1 of 4 arrived: missing 1-3") {
			t.Errorf("%v", err)
		}
	})
}

// A process that was stopped is named as such.
func TestStoppedRankIsNamed(t *testing.T) {
	stopped := false
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := gangRank{Rank: 1, Size: 2, Address: l.Addr().String(), Victim: -1, CutOff: []int{0}} // barriers without end
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := p.command(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	c, err := Join(t.Context(), Config{Size: 2, Rendezvous: p.Address, Token: Secret("0123456789abcdef"), Linger: -1, Liveness: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for !stopped {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			t.Skip("needs /proc")
		}
		stopped = strings.Contains(string(b), ") T ")
	}
	c.SetTimeout(200 * time.Millisecond)
	for err == nil { // its part of one may have been over
		err = c.Barrier(t.Context())
	}
	if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "missing: rank 1 (stopped)") {
		t.Errorf("at the time limit: %v", err)
	}
}
