package stream

import (
	"strings"
	"testing"
	"testing/fstest"
)

// The block has one port for each rank and one more where there are several.
func TestPorts(t *testing.T) {
	for _, c := range []struct {
		base, dpSize int
		want         Range
		last         int
		err          string
	}{
		{20380, 1, Range{20380, 20380}, 20380, ""},
		{40000, 4, Range{40000, 40004}, 40003, ""},
		{65535, 1, Range{65535, 65535}, 65535, ""},
		{65534, 2, Range{65534, 65536}, 65535, ""}, // the last one is not bound here
		{65535, 2, Range{65535, 65537}, 65536, "ranks 0 to 1 use the ports 65535-65536: want a base from 1 to 65534"},
		{0, 1, Range{0, 0}, 0, "want a base from 1 to 65535"},
	} {
		if got := Block(c.base, c.dpSize); got != c.want {
			t.Errorf("%d, %d ranks: %v, want %v", c.base, c.dpSize, got, c.want)
		}
		if got := Port(c.base, c.dpSize-1); got != c.last {
			t.Errorf("%d, %d ranks: the last has %d, want %d", c.base, c.dpSize, got, c.last)
		}
		if err := CheckPorts(c.base, c.dpSize); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%d, %d ranks: %v, want %q", c.base, c.dpSize, err, c.err)
		}
	}
}

func TestEphemeralRange(t *testing.T) {
	for _, c := range []struct {
		text string
		want Range
		ok   bool
	}{
		{"32768\t60999\n", Range{32768, 60999}, true},
		{"1024 65535", Range{1024, 65535}, true},
		{"", Range{}, false},
		{"32768", Range{}, false},
		{"a b", Range{}, false},
	} {
		proc := fstest.MapFS{"sys/net/ipv4/ip_local_port_range": {Data: []byte(c.text)}}
		if got, ok := EphemeralRange(proc); ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %v, %v, want %v, %v", c.text, got, ok, c.want, c.ok)
		}
	}
	if got, ok := EphemeralRange(fstest.MapFS{}); ok {
		t.Errorf("%v of nothing", got)
	}
}

// The warning names both ranges, what may happen and what to do; both ends of a range belong to it.
func TestPortWarning(t *testing.T) {
	ephemeral := Range{32768, 60999}
	for _, c := range []struct {
		block Range
		warns bool
	}{
		{Range{40000, 40004}, true}, {Range{32764, 32768}, true}, {Range{60999, 61003}, true}, {Range{30000, 62000}, true},
		{Range{32763, 32767}, false}, {Range{61000, 61000}, false}, {Range{20380, 20380}, false},
	} {
		got := PortWarning(c.block, ephemeral, "--stream-port")
		if (got != "") != c.warns {
			t.Errorf("%v: %q", c.block, got)
		}
		for _, part := range []string{c.block.String(), "32768-60999", "address already in use", "--stream-port", "below 32768"} {
			if c.warns && !strings.Contains(got, part) {
				t.Errorf("%v: %q does not say %q", c.block, got, part)
			}
		}
	}
}
