package keeper

import (
	"bufio"
	"io"
	"syscall"

	"github.com/fpmrun/fpmrun/launcher/machine"
)

// The front and its keeper exchange records over a stream socket, descriptor [SocketFD] of the keeper. The front sends
// orders: what all ranks share, the ranks one by one, signals, and the end. The keeper sends notices.

// SocketFD is the keeper's end of the socket.
const SocketFD = 3

// Version is that of the orders and notices. It changes with them.
const Version = 2

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
	r.number((*int)(&o.Signal))
	r.flag(&o.Finish)
}

// Bytes are the order as it travels. The descriptors of a rank go with the first of them.
func (o *Order) Bytes() []byte { return framed(o.pass) }

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
