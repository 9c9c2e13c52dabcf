package launcher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	reuseport "github.com/libp2p/go-reuseport"
	"golang.org/x/sys/unix"
)

// reservation holds a port of an address of this host for the ranks: bound, so that no other program takes it by accident, and
// not listening, so that rank 0 alone gets the connections.
type reservation struct {
	file    *os.File
	address string // host:port
}

// lowestPort is the first port that is tried.
const lowestPort = 10000

// reserve finds two free ports of an address, for the rendezvous and torch's store.
func reserve(host string) (ports []*reservation, err error) {
	for range 2 {
		port, err := reserveOne(host)
		if err != nil {
			release(ports)
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

func release(ports []*reservation) {
	for _, p := range ports {
		p.close()
	}
}

// loopback is the address on which the ranks of one host meet.
func loopback() string {
	if hasIPv4() {
		return "127.0.0.1"
	}
	return "::1"
}

// reserveOne finds a free port below the range from which the kernel serves outgoing connections.
func reserveOne(host string) (*reservation, error) {
	high := ephemeralStart()
	family := unix.AF_INET
	if strings.Contains(host, ":") {
		family = unix.AF_INET6
	}
	var last error
	for range 200 {
		port := lowestPort + rand.IntN(high-lowestPort)
		file, err := bind(host, family, port)
		if err == nil {
			return &reservation{file: file, address: net.JoinHostPort(host, strconv.Itoa(port))}, nil
		}
		last = err
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("launcher: reserve a port between %d and %d on %s: %w", lowestPort, high, host, last)
}

// bind binds a socket that can share its port with one that rank 0 opens later.
func bind(host string, family, port int) (*os.File, error) {
	// A probe without sharing first: with it the kernel would let us join another job's reservation.
	probe, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.Bind(probe, sockaddr(host, port)), unix.Close(probe)); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "reserved port")
	raw, err := file.SyscallConn()
	if err == nil {
		err = reuseport.Control("tcp", host, raw)
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(host, port))
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func sockaddr(host string, port int) unix.Sockaddr {
	ip := net.ParseIP(host)
	if v4 := ip.To4(); v4 != nil {
		return &unix.SockaddrInet4{Port: port, Addr: [4]byte(v4)}
	}
	return &unix.SockaddrInet6{Port: port, Addr: [16]byte(ip.To16())}
}

func hasIPv4() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	bound := unix.Bind(fd, sockaddr("127.0.0.1", 0))
	return !errors.Is(errors.Join(bound, unix.Close(fd)), syscall.EADDRNOTAVAIL)
}

// ephemeralStart is the low end of the kernel's range for outgoing connections.
func ephemeralStart() int {
	const usual = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return usual
	}
	low, err := strconv.Atoi(fields[0])
	if err != nil || low <= lowestPort+1000 {
		return usual
	}
	return low
}

func (r *reservation) close() { r.file.Close() }
