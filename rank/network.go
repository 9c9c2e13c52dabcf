package rank

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

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
	found, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("%s=%s: %w", env.KeyIface, id.Iface, err)
	}
	addresses := map[string][]netip.Addr{}
	for _, i := range found {
		own, err := i.Addrs()
		if err != nil {
			return fmt.Errorf("%s=%s: interface %s: %w", env.KeyIface, id.Iface, i.Name, err)
		}
		for _, a := range own {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				addresses[i.Name] = append(addresses[i.Name], p.Addr())
			}
		}
	}
	if cfg.Advertise, err = addressOn(id.Iface, addresses); err != nil {
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

// addressOn picks the address of an interface, given by name or by a network in CIDR form, that others can dial: IPv4 before IPv6,
// no link-local one, which means nothing on another host.
func addressOn(iface string, addresses map[string][]netip.Addr) (string, error) {
	prefix, err := netip.ParsePrefix(iface)
	byName := err != nil
	best := ""
	var known []string
	for name, own := range addresses {
		for _, a := range own {
			if a.IsLinkLocalUnicast() {
				continue
			}
			known = append(known, name+" "+a.String())
			fits := !byName && prefix.Contains(a) || byName && name == iface
			if fits && (best == "" || a.Is4() && strings.Contains(best, ":")) {
				best = a.String()
			}
		}
	}
	if best == "" {
		slices.Sort(known)
		return "", fmt.Errorf("no interface of that name or network has an address that others can dial; there are: %s", strings.Join(known, ", "))
	}
	return best, nil
}
