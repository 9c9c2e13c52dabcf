package collective

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// busy runs collectives on both ranks until stop is closed, on a new channel now and then, so that new connections are needed as well.
func busy(t *testing.T, comms []*Comm, stop <-chan struct{}) *sync.WaitGroup {
	var wg sync.WaitGroup
	for rank, c := range comms {
		wg.Go(func() {
			for round := 0; ; round++ {
				last := false
				select {
				case <-stop:
					last = rank == 0
				default:
				}
				on, err := c.Dup(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				begin := time.Now()
				over, err := AllReduce(t.Context(), on, []int32{map[bool]int32{true: 1}[last]}, Sum)
				if took := time.Since(begin); err != nil || took > 4*time.Second {
					t.Errorf("round %d: %v after %v", round, err, took)
					return
				}
				if err := on.Close(); err != nil {
					t.Error(err)
				}
				if over[0] == 1 {
					return
				}
			}
		})
	}
	return &wg
}

// Connections that never prove anything change nothing but a counter: garbage of any length, silence, and mere numbers of them. FPM_LONG
// sends a GiB.
func TestHostileConnections(t *testing.T) {
	comms := joinAll(t, 2, true, nil)
	address := comms[0].w.table[1].Addr
	stop := make(chan struct{})
	wg := busy(t, comms, stop)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	dial := func() net.Conn {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return nil
		}
		return c
	}
	var silent []net.Conn
	for range 3 * maxUnauthenticated {
		silent = append(silent, dial())
	}
	total := 16 << 20
	if os.Getenv("FPM_LONG") != "" {
		total = 1 << 30
	}
	noise := make([]byte, 64<<10)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	for sent := 0; sent < total; {
		c := dial()
		for sent < total {
			n, err := c.Write(noise)
			sent += n
			if err != nil {
				break // it was closed, as it should be
			}
		}
		_ = c.Close()
	}
	var many sync.WaitGroup
	var opened atomic.Int64
	for range 20 {
		many.Go(func() {
			for i := range 500 {
				c := dial()
				if c == nil {
					return
				}
				opened.Add(1)
				_, _ = c.Write(noise[:i%(2*helloSize)]) // refused or not, the other side decides
				_ = c.Close()
			}
		})
	}
	many.Wait()
	for _, c := range silent {
		_ = c.Close()
	}
	close(stop)
	wg.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("%d bytes more in use after the flood", grown)
	}
	if got := comms[1].w.refused.Load(); got < int64(len(silent)) || opened.Load() != 10_000 {
		t.Errorf("%d refused, %d opened", got, opened.Load())
	}
}

// refusedJoin lets somebody knock at a world of two that waits for rank 1, and returns what it is told.
func refusedJoin(t *testing.T, knock func(address string) error) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	host := make(chan error, 1)
	go func() {
		_, err := Join(ctx, Config{Rank: 0, Size: 2, Rendezvous: address, Token: Secret("0123456789abcdef"), RunID: "run", JoinTimeout: 20 * time.Second})
		host <- err
	}()
	told := knock(address)
	cancel()
	if err := <-host; err == nil {
		t.Error("rank 0 took it for rank 1")
	}
	return told
}

// shake dials until somebody listens, and does the dialler's half of a handshake.
func shake(address, token string, h hello) error {
	for {
		c, err := net.Dial("tcp", address)
		if err != nil {
			runtime.Gosched()
			continue
		}
		_, err = dialHandshake(c, []byte(token), h)
		if cerr := c.Close(); err == nil {
			err = cerr
		}
		return err
	}
}

func TestStrangersAreRefused(t *testing.T) {
	good := hello{Purpose: forJoin, Dialler: 1, Size: 2, PID: 4711, Run: runHash("run")}
	other := good
	other.Run = runHash("another run")
	large := good
	large.Size = 3
	rank0 := good
	rank0.Dialler = 0
	data := good
	data.Purpose = forData
	for _, c := range []struct {
		name, token string
		h           hello
		want        string
	}{
		{"wrong token", "fedcba9876543210", good, "the listener does not know the token"},
		{"another run", "0123456789abcdef", other, "other run id"},
		{"another world size", "0123456789abcdef", large, "rank or world size do not fit"},
		{"the listener's own rank", "0123456789abcdef", rank0, "rank or world size do not fit"},
		{"data before the world is complete", "0123456789abcdef", data, "other world of the run"},
	} {
		err := refusedJoin(t, func(address string) error { return shake(address, c.token, c.h) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A second process with a rank that is taken is told who has it.
func TestSecondProcessOfARank(t *testing.T) {
	err := refusedJoin(t, func(address string) error {
		h := hello{Purpose: forJoin, Dialler: 1, Size: 2, PID: 4711, Run: runHash("run")}
		var first net.Conn
		for first == nil {
			first, _ = net.Dial("tcp", address)
		}
		defer first.Close()
		if _, err := dialHandshake(first, []byte("0123456789abcdef"), h); err != nil {
			return err
		}
		h.PID = 4712
		return shake(address, "0123456789abcdef", h)
	})
	if err == nil || !strings.Contains(err.Error(), "pid 4711 has this rank already") {
		t.Errorf("%v", err)
	}
}

// What a listener of another version says names both.
func TestOtherVersion(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		_, _ = io.ReadFull(far, make([]byte, helloSize))
		a := answer{Version: 99, Status: statusVersion}
		_, _ = far.Write(a.encode())
	}()
	_, err := dialHandshake(near, []byte("0123456789abcdef"), hello{Purpose: forJoin})
	if want := fmt.Sprintf("protocol version 99 there, %d here", protocolVersion); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// What was recorded of one handshake opens no other connection: the nonces differ.
func TestReplayIsRefused(t *testing.T) {
	token := []byte("0123456789abcdef")
	accept := func(conn net.Conn) error {
		_, err := acceptHandshake(conn, token, func(hello) answer { return answer{} }, func(hello) status { return statusOK })
		return err
	}
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- accept(far) }()
	var said bytes.Buffer
	if _, err := dialHandshake(recorded{near, &said}, token, hello{Purpose: forJoin}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	near, far = net.Pipe()
	go func() { done <- accept(far) }()
	replay := said.Bytes()
	if _, err := near.Write(replay[:helloSize]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(near, make([]byte, helloSize)); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write(replay[helloSize:]); err != nil {
		t.Fatal(err)
	}
	var last [1]byte
	if _, err := io.ReadFull(near, last[:]); err != nil || status(last[0]) != statusMAC {
		t.Errorf("a replayed handshake got %v (%v)", status(last[0]), err)
	}
	if err := <-done; err == nil {
		t.Error("a replayed handshake was taken")
	}
}

// recorded keeps what is written.
type recorded struct {
	net.Conn
	said *bytes.Buffer
}

func (r recorded) Write(p []byte) (int, error) { r.said.Write(p); return r.Conn.Write(p) }
