package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// reservePort binds a free port that ranks can meet at, without listening: nobody else gets it by accident, and rank 0 of a launch can share it. host is
// where the ranks reach this one; unless it is a loopback address the port is that of all interfaces.
func reservePort(host string) (address string, release func() error, err error) {
	ip := net.ParseIP(host)
	if ip == nil || !ip.IsLoopback() {
		ip = net.IPv4zero
	}
	family, at := unix.AF_INET, unix.Sockaddr(nil)
	if v4 := ip.To4(); v4 != nil {
		at = &unix.SockaddrInet4{Addr: [4]byte(v4)}
	} else {
		family, at = unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte(ip.To16())}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("reserve a port: %w", err)
	}
	bind := func() (int, error) {
		// Without SO_REUSEADDR, which would let any listener of that kind have the port too.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return 0, os.NewSyscallError("setsockopt", err)
		}
		if err := unix.Bind(fd, at); err != nil {
			return 0, os.NewSyscallError("bind", err)
		}
		name, err := unix.Getsockname(fd)
		switch a := name.(type) {
		case *unix.SockaddrInet4:
			return a.Port, err
		case *unix.SockaddrInet6:
			return a.Port, err
		}
		return 0, os.NewSyscallError("getsockname", err)
	}
	port, err := bind()
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("reserve a port for %s: %w", host, err), unix.Close(fd))
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), func() error { return unix.Close(fd) }, nil
}
