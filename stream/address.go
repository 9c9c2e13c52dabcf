package stream

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// ParseAddress is the HOST:PORT of a publisher's address, tcp://HOST:PORT. The scheme may be left out.
func ParseAddress(s string) (string, error) {
	wrong := func(what string) error {
		return fmt.Errorf("%q %s, want tcp://HOST:PORT such as tcp://127.0.0.1:%d", s, what, DefaultPort)
	}
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		if scheme != "tcp" {
			return "", wrong("is no TCP address")
		}
		rest = after
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return "", wrong("is no address")
	}
	_, literal := netip.ParseAddr(host)
	if host == "" || host == "*" || strings.ContainsAny(host, "/ \t\r\n") || literal != nil && strings.ContainsAny(host, ":[]%") {
		return "", wrong("names no host")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", wrong("has no port from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}
