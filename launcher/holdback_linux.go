package launcher

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes of a link the kernel holds beyond those that are on their way: what comes later and is urgent
// waits for no more than these.
const unsent = 128 << 10

// holdBack keeps the kernel from taking more of a connection's bytes than it can send soon. A connection without such a limit works,
// too.
func holdBack(conn net.Conn) {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent) })
	}
}
