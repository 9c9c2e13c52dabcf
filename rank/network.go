package rank

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank/env"
)

// network applies what the environment says of the connections between ranks: encryption, checks, and the address to be reached at.
func network(cfg *collective.Config, id Identity, getenv func(string) string) error {
	if word := getenv(env.KeyTLS); word != "" {
		var err error
		if cfg.TLS, err = collective.ParseTLS(word); err != nil {
			return fmt.Errorf("%s=%s: %w", env.KeyTLS, word, err)
		}
	}
	if word := getenv(env.KeyCheck); word != "" {
		var err error
		if cfg.Check, err = strconv.ParseBool(word); err != nil {
			return fmt.Errorf("%s=%s: want 1 or 0", env.KeyCheck, word)
		}
	}
	if id.Iface == "" || len(id.Rendezvous) == 0 || isLoopback(id.Rendezvous[0]) {
		return nil // ranks of one host meet on its loopback interface
	}
	var err error
	if cfg.Advertise, err = env.AddressOn(id.Iface); err != nil {
		return fmt.Errorf("%s=%s: %w", env.KeyIface, id.Iface, err)
	}
	return nil
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
