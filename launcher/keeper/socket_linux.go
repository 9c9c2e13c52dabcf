package keeper

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// socket is the keeper's end of the connection, a descriptor that blocks. It is none of package net, which takes longer to load than all else here.
type socket int

// Write implements io.Writer.
func (s socket) Write(p []byte) (int, error) {
	for done := 0; ; {
		n, err := unix.Write(int(s), p[done:])
		if err != nil && !errors.Is(err, unix.EINTR) {
			return done, err
		}
		if done += max(n, 0); done == len(p) {
			return done, nil
		}
	}
}

// orders reads the orders: a stream of bytes, and the descriptors that came with them, in their order.
type orders struct {
	from socket
	fds  []int
}

// Read implements io.Reader.
func (o *orders) Read(p []byte) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4*16))
	n, m, _, _, err := unix.Recvmsg(int(o.from), p, rights, unix.MSG_CMSG_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		n, m, _, _, err = unix.Recvmsg(int(o.from), p, rights, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil { // a front that died with notices unread resets the socket
		return 0, err
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
		o.fds = append(o.fds, fds...)
	}
	if n == 0 {
		return 0, io.EOF
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
