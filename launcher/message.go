package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// The front and its keeper exchange JSON values over a stream socket, descriptor socketFD of the keeper. The front sends
// orders: what all ranks share, the ranks one by one, the end of the list, then signals and the end. The keeper sends
// notices.

const socketFD = 3

// order is what the front wants.
type order struct {
	Folder string         `json:"folder,omitempty"` // job folder, removed when the front died without doing so
	Env    []string       `json:"env,omitempty"`    // environment that all ranks share
	Rank   *Rank          `json:"rank,omitempty"`   // start it; three descriptors come along: standard input, output and error
	All    bool           `json:"all,omitempty"`    // no further ranks come
	Signal syscall.Signal `json:"signal,omitempty"` // to the process groups of all ranks that live
	Finish bool           `json:"finish,omitempty"` // kill whatever is left and exit
}

// notice is what happened to a rank.
type notice struct {
	Rank    int                `json:"rank"`
	PID     int                `json:"pid,omitempty"`     // it was started
	Failed  syscall.Errno      `json:"failed,omitempty"`  // it could not be started
	Unbound syscall.Errno      `json:"unbound,omitempty"` // it was started, and could not be bound to its CPUs
	Stopped bool               `json:"stopped,omitempty"` // a signal stopped it
	Exited  bool               `json:"exited,omitempty"`  // it ended, with the status
	Status  syscall.WaitStatus `json:"status,omitempty"`
	Why     string             `json:"why,omitempty"` // the kernel killed it, where that is known
}

// send writes an order and hands descriptors over with its first byte.
func send(conn *net.UnixConn, o order, fds ...int) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	n, _, err := conn.WriteMsgUnix(text, rights, nil)
	for err == nil && n < len(text) {
		var more int
		more, err = conn.Write(text[n:])
		n += more
	}
	if err != nil {
		return fmt.Errorf("launcher: send to the keeper: %w", err)
	}
	return nil
}

// orders reads what send wrote: a stream of bytes, and the descriptors that came with them, in their order.
type orders struct {
	conn *net.UnixConn
	fds  []int
}

// Read implements io.Reader.
func (o *orders) Read(p []byte) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4*16))
	n, m, _, _, err := o.conn.ReadMsgUnix(p, rights)
	if err != nil { // a front that died with notices unread resets the socket: the count is -1 then
		return max(n, 0), err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return n, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return n, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		o.fds = append(o.fds, fds...)
	}
	if n == 0 {
		return 0, errors.New("launcher: the socket to the launcher is closed")
	}
	return n, nil
}

// take removes the descriptors of one rank.
func (o *orders) take() ([3]int, error) {
	if len(o.fds) < 3 {
		return [3]int{}, fmt.Errorf("launcher: a rank came with %d descriptors", len(o.fds))
	}
	fds := [3]int(o.fds[:3])
	o.fds = o.fds[3:]
	return fds, nil
}
