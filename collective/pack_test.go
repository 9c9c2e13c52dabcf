package collective

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"testing"
)

// remote is TCP whose connections claim to come from another host.
type remote struct{ TCP }

type remoteConn struct{ *net.TCPConn }

func (remoteConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }
func (remoteConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1} }

func (r remote) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := r.TCP.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return remoteConn{c.(*net.TCPConn)}, nil
}

// Long bodies arrive whole, whether they become shorter or not, and several at once.
func TestPackedCalls(t *testing.T) {
	comms := joinAll(t, 2, true, func(cfg *Config) {
		cfg.TLS = TLSOff
		if cfg.Rank == 1 { // it dials, so that its calls are packed
			cfg.Network = remote{}
		}
	})
	if err := comms[0].Handle("echo", func(_ context.Context, req *Request) (any, error) { return Raw(req.Args), nil }); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 300_000)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	bodies := [][]byte{make([]byte, 10<<20), noise, bytes.Repeat([]byte("evidence "), 50_000), []byte("short")}
	done := make(chan error)
	for _, body := range bodies {
		go func() {
			var got []byte
			err := comms[1].Call(t.Context(), 0, "echo", body, &got)
			if err == nil && !bytes.Equal(got, body) {
				err = errors.New("other bytes came back")
			}
			done <- err
		}()
	}
	for range bodies {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestPack(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 10_000)
	packed := pack(body)
	if got, err := unpack(packed, int64(len(body))); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes (%v)", len(got), err)
	}
	if _, err := unpack(packed, int64(len(body)-1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("longer than the limit: %v", err)
	}
	if _, err := unpack(packed[:len(packed)-5], 1<<30); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut off: %v", err)
	}
	lying := bytes.Clone(packed)
	binary.LittleEndian.PutUint64(lying, 10)
	if _, err := unpack(lying, 1<<30); !errors.Is(err, ErrMalformed) {
		t.Errorf("declares 10 bytes: %v", err)
	}
	if noise := []byte{3, 1, 4, 1, 5}; pack(noise) != nil {
		t.Error("packed what does not become shorter")
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(pack(bytes.Repeat([]byte("0123456789"), 100)))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 20
		if body, err := unpack(b, limit); err == nil && len(body) > limit {
			t.Errorf("%d bytes from %d", len(body), len(b))
		}
	})
}
