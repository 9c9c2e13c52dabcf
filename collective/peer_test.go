package collective

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// serve listens for peers; what is admitted echoes one byte, and what is refused is told.
func serve(t *testing.T, p Peering) (address string, refused <-chan error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	errs, done := make(chan error, 16), make(chan struct{})
	go func() {
		defer close(done)
		p.ServePeers(t.Context(), ln, func(conn net.Conn, number int) {
			defer conn.Close()
			if _, err := conn.Write([]byte{byte(number)}); err != nil {
				t.Error(err)
			}
		}, func(_ net.Addr, err error) { errs <- err })
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String(), errs
}

func TestPeers(t *testing.T) {
	for _, mode := range []TLS{TLSOff, TLSOn} {
		p := Peering{Token: []byte("0123456789abcdef"), RunID: "job", TLS: mode}
		address, _ := serve(t, p)
		conn, err := p.DialPeer(context.Background(), address, 7)
		if err != nil {
			t.Fatalf("%v: %v", mode, err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "\x07" {
			t.Errorf("%v: %q (%v), want the number 7", mode, got, err)
		}
		conn.Close()
	}
}

func TestPeersRefuse(t *testing.T) {
	good := Peering{Token: []byte("0123456789abcdef"), RunID: "job"}
	address, refused := serve(t, good)
	other := good
	other.Token = []byte("fedcba9876543210")
	if _, err := other.DialPeer(context.Background(), address, 1); !errors.Is(err, ErrToken) {
		t.Errorf("another token: %v, want ErrToken", err)
	}
	if err := <-refused; err == nil {
		t.Error("another token was not told as refused")
	}
	other = good
	other.RunID = "other job"
	if _, err := other.DialPeer(context.Background(), address, 1); err == nil || !strings.Contains(err.Error(), "other run id") {
		t.Errorf("another run: %v", err)
	}
	// A rank of a world, even with this token, is no peer.
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := dialHandshake(conn, good.Token, hello{Purpose: forJoin, Run: runHash("job")}); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("a rank: %v", err)
	}
	// Nobody listens.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	var op *net.OpError
	if _, err := good.DialPeer(context.Background(), ln.Addr().String(), 1); !errors.As(err, &op) {
		t.Errorf("nobody listens: %v, want a *net.OpError", err)
	}
}

// A world does not take a peer in, and does not count it as a rank.
func TestWorldRefusesPeers(t *testing.T) {
	w := &world{cfg: Config{RunID: "job"}, size: 2, joining: true}
	if a := w.judge(hello{Purpose: forPeer, Run: runHash("job"), Size: 2, Dialler: 1}); a.Status != statusMember {
		t.Errorf("status %v, want %v", a.Status, statusMember)
	}
}
