package env

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// AddressOn is the address of this host on an interface, given by name or by a network in CIDR form. An interface that there
// is not, or that has no address for other hosts to dial, is an error that lists those that there are.
func AddressOn(iface string) (string, error) {
	found, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	addresses := map[string][]netip.Addr{}
	for _, i := range found {
		own, err := i.Addrs()
		if err != nil {
			return "", fmt.Errorf("interface %s: %w", i.Name, err)
		}
		for _, a := range own {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				addresses[i.Name] = append(addresses[i.Name], p.Addr())
			}
		}
	}
	return addressOn(iface, addresses)
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
