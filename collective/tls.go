package collective

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"time"
)

// TLS says which connections are encrypted, by TLS 1.3 under a key that both sides derive from the token.
type TLS uint8

// The choices.
const (
	TLSAuto TLS = iota // those between hosts
	TLSOff             // none
	TLSOn              // all
)

var tlsWords = [...]string{"auto", "off", "on"}

// String is the word that ParseTLS reads.
func (m TLS) String() string {
	if int(m) < len(tlsWords) {
		return tlsWords[m]
	}
	return fmt.Sprintf("TLS %d", uint8(m))
}

// ParseTLS reads auto, off or on.
func ParseTLS(word string) (TLS, error) {
	for i, w := range tlsWords {
		if w == word {
			return TLS(i), nil
		}
	}
	return 0, fmt.Errorf("tls %q: want %s", word, strings.Join(tlsWords[:], ", "))
}

// wanted reports whether a dialler encrypts a connection.
func (m TLS) wanted(conn net.Conn) bool { return m == TLSOn || m == TLSAuto && !sameHost(conn) }

// sameHost reports whether a connection does not leave its host: it goes to a loopback address or to the address it
// comes from. Connections of other networks than TCP do not leave their process.
func sameHost(conn net.Conn) bool {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return true
	}
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && (remote.IP.IsLoopback() || remote.IP.Equal(local.IP))
}

// newTLS derives the world's key and certificate. Both sides present the same certificate and accept only its key: an Ed25519
// key whose seed is HKDF-SHA256 (RFC 5869) of the token, with the run in the info.
func newTLS(token []byte, runID string) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, token, nil, "fpm tls"+runID, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(nil, template, template, public, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // names and dates mean nothing here: the key is checked below
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 || !public.Equal(s.PeerCertificates[0].PublicKey) {
				return errors.New("collective: TLS: the other side does not have the key of this job")
			}
			return nil
		},
	}, nil
}

// encrypt continues an authenticated connection under TLS.
func (w *world) encrypt(ctx context.Context, conn net.Conn, dialled bool) (net.Conn, error) {
	cfg, err := w.tls()
	if err != nil {
		return nil, fmt.Errorf("collective: TLS: %w", err)
	}
	return encrypted(ctx, conn, cfg, dialled)
}

// encrypted makes the TLS handshake.
func encrypted(ctx context.Context, conn net.Conn, cfg *tls.Config, dialled bool) (net.Conn, error) {
	secure := tls.Server(conn, cfg)
	if dialled {
		secure = tls.Client(conn, cfg)
	}
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secure, nil
}

// pump moves bytes between an encrypted connection, which cannot be polled, and an in-memory one, which it returns. Its goroutines
// end when either side is closed.
func (w *world) pump(secure *tls.Conn) stream {
	near, far := NewMemory(0, 256<<10).pair(memAddr(secure.LocalAddr().String()), memAddr(secure.RemoteAddr().String()))
	w.wg.Go(func() {
		if _, err := io.Copy(secure, far); err != nil {
			far.reset()
		}
		_ = secure.Close() // nothing more is expected from it
	})
	w.wg.Go(func() {
		if _, err := io.Copy(far, secure); err != nil {
			far.reset()
		}
		_ = far.CloseWrite() // cannot fail
	})
	return near
}
