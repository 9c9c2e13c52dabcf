package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/launcher/machine"
)

// The front and its keeper exchange records over a stream socket, descriptor socketFD of the keeper. The front sends
// orders: what all ranks share, the ranks one by one, the end of the list, then signals and the end. The keeper sends
// notices.

const socketFD = 3

// version is that of the orders and notices. It changes with them.
const version = 1

// Rank is a process to start.
type Rank struct {
	Rank int
	Path string
	Args []string     // argv, the program's name first
	Env  []string     // what is added to the environment that all share
	Dir  string       // working directory
	CPUs machine.CPUs // that it is bound to; none: all that are allowed
}

// Order is what the front wants.
type Order struct {
	Folder string         // job folder, removed when the front died without doing so
	Env    []string       // environment that all ranks share
	Rank   *Rank          // start it; three descriptors come along: standard input, output and error
	All    bool           // no further ranks come
	Signal syscall.Signal // to the process groups of all ranks that live
	Finish bool           // kill whatever is left and exit
}

func (o *Order) pass(r *record) {
	r.text(&o.Folder)
	list(r, &o.Env, r.text)
	starts := o.Rank != nil
	if r.flag(&starts); starts {
		if r.reading {
			o.Rank = new(Rank)
		}
		k := o.Rank
		r.number(&k.Rank)
		r.text(&k.Path)
		list(r, &k.Args, r.text)
		list(r, &k.Env, r.text)
		r.text(&k.Dir)
		list(r, (*[]int)(&k.CPUs), r.number)
	}
	r.flag(&o.All)
	r.number((*int)(&o.Signal))
	r.flag(&o.Finish)
}

// Notice is what happened to a rank. Agents pass it on as JSON.
type Notice struct {
	Rank    int                `json:"rank"`
	PID     int                `json:"pid,omitempty"`     // it was started
	Failed  syscall.Errno      `json:"failed,omitempty"`  // it could not be started
	Unbound syscall.Errno      `json:"unbound,omitempty"` // it was started, and could not be bound to its CPUs
	Stopped bool               `json:"stopped,omitempty"` // a signal stopped it
	Exited  bool               `json:"exited,omitempty"`  // it ended, with the status
	Status  syscall.WaitStatus `json:"status,omitempty"`
	Why     string             `json:"why,omitempty"` // the kernel killed it, where that is known
}

func (n *Notice) pass(r *record) {
	failed, unbound, status := int(n.Failed), int(n.Unbound), int(n.Status)
	r.number(&n.Rank)
	r.number(&n.PID)
	r.number(&failed)
	r.number(&unbound)
	r.flag(&n.Stopped)
	r.flag(&n.Exited)
	r.number(&status)
	r.text(&n.Why)
	n.Failed, n.Unbound, n.Status = syscall.Errno(failed), syscall.Errno(unbound), syscall.WaitStatus(status)
}

// Read reads a notice; at the end of the stream it returns io.EOF.
func (n *Notice) Read(from *bufio.Reader) error {
	*n = Notice{}
	return readRecord(from, n.pass)
}

// Write writes a notice.
func (n *Notice) Write(to io.Writer) error {
	_, err := to.Write(framed(n.pass))
	return err
}

// Send writes an order and hands descriptors over with its first byte.
func Send(conn *net.UnixConn, o Order, fds ...int) error {
	text := framed(o.pass)
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

// orders reads what Send wrote: a stream of bytes, and the descriptors that came with them, in their order.
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
