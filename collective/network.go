package collective

import (
	"context"
	"net"

	reuseport "github.com/libp2p/go-reuseport"
)

// Network carries a world's connections. Connections are reliable ordered byte streams with the
// semantics of net.Conn, deadlines included. All methods may be called at once.
type Network interface {
	// Listen opens a listener. Port 0 means any free port.
	Listen(ctx context.Context, address string) (net.Listener, error)
	// Dial connects to a listener's address; it resolves names anew at every call.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// TCP is the Network of real jobs.
type TCP struct{}

// Listen binds with SO_REUSEADDR and SO_REUSEPORT, because the launcher keeps the rendezvous port
// reserved by a socket of its own that never listens. See Network.
func (TCP) Listen(ctx context.Context, address string) (net.Listener, error) {
	lc := net.ListenConfig{Control: reuseport.Control}
	return lc.Listen(ctx, "tcp", address)
}

// Dial tries all addresses of a host name. See Network.
func (TCP) Dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// listenAddress is where rank 0 listens for a rendezvous: the address itself when it is a
// loopback one, all interfaces otherwise, because a host's name need not resolve to an address of the
// interface that the others come in on.
func listenAddress(rendezvous string) string {
	host, port, err := net.SplitHostPort(rendezvous)
	if err != nil || host == "localhost" {
		return rendezvous
	}
	if ip := net.ParseIP(host); ip == nil && port != "" {
		return net.JoinHostPort("", port)
	} else if ip.IsLoopback() {
		return rendezvous
	}
	return net.JoinHostPort("", port)
}

// anyPort is the address of the listener of a rank other than 0, given its connection to the rendezvous.
func anyPort(local net.Addr) string {
	host, _, err := net.SplitHostPort(local.String())
	if err != nil {
		return ":0"
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsLoopback() {
		return ":0"
	}
	return net.JoinHostPort(host, "0")
}

// advertised joins the host others reach us at with the listener's port.
func advertised(host string, local, listener net.Addr) string {
	if host == "" {
		host, _, _ = net.SplitHostPort(local.String())
	}
	_, port, _ := net.SplitHostPort(listener.String())
	return net.JoinHostPort(host, port)
}
