package flagvalue

import "testing"

func TestListenAddress(t *testing.T) {
	for given, want := range map[string]string{"8000": "127.0.0.1:8000", ":8000": "127.0.0.1:8000", "0": "127.0.0.1:0", "0.0.0.0:80": "0.0.0.0:80", "[::1]:80": "[::1]:80", "host:80": "host:80"} {
		if got, err := ListenAddress(given); got != want || err != nil {
			t.Errorf("%s: %q (%v), want %q", given, got, err, want)
		}
	}
	for _, given := range []string{"foo", "99999", "-1", "host:", "host:http", "::1", "1:2:3", ":"} {
		if got, err := ListenAddress(given); err == nil {
			t.Errorf("%s was taken for %s", given, got)
		}
	}
}
