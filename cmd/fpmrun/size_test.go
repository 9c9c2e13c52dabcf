package main

import "testing"

func TestSize(t *testing.T) {
	for text, want := range map[string]size{"0": 0, "77": 77, "3k": 3 << 10, "512M": 512 << 20, "2GiB": 2 << 30, "2GB": 2 << 30, "1T": 1 << 40} {
		var z size
		if err := z.Set(text); err != nil || z != want {
			t.Errorf("%q: %d (%v), want %d", text, z, err, want)
		}
	}
	for _, text := range []string{"", "-1", "G", "1.5G", "2X", "9000000000T", "2iG"} {
		var z size
		if err := z.Set(text); err == nil {
			t.Errorf("%q: %d, want an error", text, z)
		}
	}
}
