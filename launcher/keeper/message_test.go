package keeper

import (
	"bufio"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// sockets are the two ends of a socket between a front and its keeper.
func sockets(t *testing.T) (front, keeper socket) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[1]) })
	return socket(pair[0]), socket(pair[1])
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
	order := Order{Rank: &Rank{Rank: 3, Args: []string{"a"}}}
	if err := unix.Sendmsg(int(front), order.Bytes(), unix.UnixRights(fd, fd, fd), nil, 0); err != nil {
		t.Fatal(err)
	}
	unix.Close(int(front))
	write.Close()
	from := &orders{from: keeper}
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
		unix.Close(int(front))
		var got Order
		if err := readRecord(bufio.NewReader(&orders{from: keeper}), got.pass); err == nil {
			t.Errorf("unread notices: %v: an order came from a front that is gone: %+v", unread, got)
		}
	}
}

// A keeper of another build refuses to work.
func TestOtherVersion(t *testing.T) {
	if status := Main([]string{Name, "0"}); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
}
