package keeper

import (
	"bufio"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// sockets are the two ends of a socket between a front and its keeper.
func sockets(t *testing.T) (front, keeper *net.UnixConn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range pair {
		file := os.NewFile(uintptr(fd), "socket")
		conn, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { conn.Close() })
	}
	return conns[0], conns[1]
}

// Orders and their descriptors arrive as they were sent.
func TestOrders(t *testing.T) {
	front, keeper := sockets(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	fd := int(write.Fd())
	if err := Send(front, Order{Rank: &Rank{Rank: 3, Args: []string{"a"}}}, fd, fd, fd); err != nil {
		t.Fatal(err)
	}
	write.Close()
	from := &orders{conn: keeper}
	var got Order
	if err := readRecord(bufio.NewReader(from), got.pass); err != nil || got.Rank == nil || got.Rank.Rank != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	fds, err := from.take()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(fds[1], []byte("x")); err != nil {
		t.Errorf("the descriptor does not lead to the pipe: %v", err)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	if _, err := from.take(); err == nil {
		t.Error("descriptors that were not sent")
	}
}

// A front that dies with notices unread resets the socket, which is an end like any other.
func TestOrdersOfADeadFront(t *testing.T) {
	for _, unread := range []bool{false, true} {
		front, keeper := sockets(t)
		if unread {
			if _, err := keeper.Write([]byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		front.Close()
		var got Order
		if err := readRecord(bufio.NewReader(&orders{conn: keeper}), got.pass); err == nil {
			t.Errorf("unread notices: %v: an order came from a front that is gone: %+v", unread, got)
		}
	}
}
