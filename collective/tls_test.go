package collective

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// tapped is TCP with a copy of everything that is sent.
type tapped struct {
	TCP
	mu   *sync.Mutex
	wire *bytes.Buffer
}

type tappedConn struct {
	net.Conn
	t tapped
}

func (c tappedConn) Write(p []byte) (int, error) {
	c.t.mu.Lock()
	c.t.wire.Write(p)
	c.t.mu.Unlock()
	return c.Conn.Write(p)
}

func (t tapped) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := t.TCP.Dial(ctx, address)
	return tappedConn{c, t}, err
}

// Under TLS every operation works as without, and what the ranks say is not on the wire.
func TestTLS(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		tap := tapped{mu: new(sync.Mutex), wire: new(bytes.Buffer)}
		comms := joinAll(t, n, true, func(cfg *Config) { cfg.TLS, cfg.Network = TLSOn, tap })
		testIntoForms(t, comms)
		secret := bytes.Repeat([]byte("attack at dawn "), 3)
		if err := comms[0].Handle("echo", func(_ context.Context, req *Request) (any, error) { return Raw(req.Args), nil }); err != nil {
			t.Fatal(err)
		}
		each(comms, func(rank int, c *Comm) {
			got, err := BroadcastBytes(t.Context(), c, 0, secret)
			if err != nil || !bytes.Equal(got, secret) {
				t.Errorf("rank %d: %q (%v)", rank, got, err)
			}
			var back []byte
			if err := c.Call(t.Context(), 0, "echo", secret, &back); err != nil || !bytes.Equal(back, secret) {
				t.Errorf("call: %q (%v)", back, err)
			}
		})
		tap.mu.Lock()
		if tap.wire.Len() < 1000 || bytes.Contains(tap.wire.Bytes(), secret[:15]) {
			t.Errorf("%d bytes on the wire, the secret among them: %v", tap.wire.Len(), bytes.Contains(tap.wire.Bytes(), secret[:15]))
		}
		tap.mu.Unlock()
	}
}

func TestTLSIsAgreed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	join := func(rank int, mode TLS) error {
		_, err := Join(ctx, Config{Rank: rank, Size: 2, Rendezvous: address, Token: Secret("0123456789abcdef"), TLS: mode, JoinTimeout: 20 * time.Second})
		return err
	}
	host := make(chan error, 1)
	go func() { host <- join(0, TLSOn) }()
	if err := join(1, TLSOff); err == nil || !strings.Contains(err.Error(), "one side wants TLS") {
		t.Errorf("rank 1 without TLS: %v", err)
	}
	cancel()
	if err := <-host; err == nil {
		t.Error("rank 0 joined without rank 1")
	}
}

func TestTLSWithAnotherKeyIsRefused(t *testing.T) {
	near, far := NewMemory(0, 0).pair("a", "b")
	worlds := [2]*world{}
	for i, token := range []string{"0123456789abcdef", "0123456789abcdeX"} {
		w, err := newWorld(Config{Size: 2, Token: Secret(token), RunID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		worlds[i] = w
	}
	done := make(chan error, 1)
	go func() {
		c, err := worlds[0].encrypt(t.Context(), far, false)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		done <- errors.Join(err, far.Close())
	}()
	_, err := worlds[1].encrypt(t.Context(), near, true)
	if err == nil || !strings.Contains(err.Error(), "does not have the key of this job") {
		t.Errorf("dialler with another token: %v", err)
	}
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("acceptor went on")
	}
}

func TestTLSAutoIsBetweenHosts(t *testing.T) {
	tcp := func(ip string) *net.TCPAddr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, c := range []struct {
		local, remote string
		same          bool
	}{{"127.0.0.1", "127.0.0.1", true}, {"::1", "::1", true}, {"10.0.0.1", "10.0.0.1", true}, {"10.0.0.1", "10.0.0.2", false}, {"fd00::1", "fd00::2", false}} {
		conn := addressed{local: tcp(c.local), remote: tcp(c.remote)}
		if got := TLSAuto.wanted(conn); got == c.same {
			t.Errorf("%s to %s: TLS %v", c.local, c.remote, got)
		}
		if TLSOff.wanted(conn) || !TLSOn.wanted(conn) {
			t.Error("off and on depend on the address")
		}
	}
	if _, err := ParseTLS("maybe"); err == nil || !strings.Contains(err.Error(), "auto, off, on") {
		t.Errorf("maybe: %v", err)
	}
}

type addressed struct {
	net.Conn
	local, remote net.Addr
}

func (a addressed) LocalAddr() net.Addr  { return a.local }
func (a addressed) RemoteAddr() net.Addr { return a.remote }
