package rank

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank/env"
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

func TestNetworkVariables(t *testing.T) {
	with := func(vars map[string]string) (cfg collective.Config, err error) {
		err = network(&cfg, Identity{Rendezvous: []string{"192.0.2.1:7000"}, Iface: vars[env.KeyIface]}, func(k string) string { return vars[k] })
		return cfg, err
	}
	cfg, err := with(map[string]string{env.KeyTLS: "on", env.KeyCheck: "1", env.KeyIface: "127.0.0.0/8"})
	if err != nil || cfg.TLS != collective.TLSOn || !cfg.Check || cfg.Advertise != "127.0.0.1" {
		t.Errorf("%+v (%v)", cfg, err)
	}
	for key, want := range map[string]string{env.KeyTLS: "FPM_TLS=maybe", env.KeyCheck: "FPM_CHECK=maybe", env.KeyIface: "FPM_IFACE=maybe"} {
		if _, err := with(map[string]string{key: "maybe"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
