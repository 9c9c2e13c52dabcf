package flagvalue

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// ListenAddress is the HOST:PORT that a flag's value means: PORT or HOST:PORT, where a port alone is one of the loopback interface and 0 is any free one.
func ListenAddress(given string) (string, error) {
	address := given
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", errors.New("want PORT or HOST:PORT, with a port from 0 to 65535")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}
