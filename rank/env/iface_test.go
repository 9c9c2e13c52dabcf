package env

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddressOn(t *testing.T) {
	machine := map[string][]netip.Addr{
		"lo":   {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")},
		"eth0": {netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("192.0.2.5")},
		"ib0":  {netip.MustParseAddr("fe80::2"), netip.MustParseAddr("2001:db8:1::5")},
		"down": {netip.MustParseAddr("fe80::3")},
	}
	for iface, want := range map[string]string{
		"eth0": "192.0.2.5", "ib0": "2001:db8:1::5", "192.0.2.0/24": "192.0.2.5", "2001:db8:1::/48": "2001:db8:1::5", "127.0.0.0/8": "127.0.0.1",
	} {
		if got, err := addressOn(iface, machine); got != want || err != nil {
			t.Errorf("%s: %q (%v), want %q", iface, got, err, want)
		}
	}
	for _, iface := range []string{"down", "eth1", "198.51.100.0/24", "fe80::/10"} {
		if got, err := addressOn(iface, machine); err == nil || !strings.Contains(err.Error(), "eth0 192.0.2.5") || strings.Contains(err.Error(), "fe80::") {
			t.Errorf("%s: %q (%v)", iface, got, err)
		}
	}
}

func TestAddressOnThisHost(t *testing.T) {
	if got, err := AddressOn("127.0.0.0/8"); err != nil || got != "127.0.0.1" {
		t.Errorf("loopback: %q (%v)", got, err)
	}
	if got, err := AddressOn("no-such-interface"); err == nil || !strings.Contains(err.Error(), "lo 127.0.0.1") {
		t.Errorf("unknown: %q (%v), want an error that lists lo", got, err)
	}
}
