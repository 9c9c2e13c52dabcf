package rank

import (
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank/env"
)

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
