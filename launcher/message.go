package launcher

import (
	"syscall"
)

// The front and its keeper exchange JSON values over a stream socket. The first is the front's spec, then the
// front sends commands and the keeper notices.

// spec is everything the keeper has to start.
type spec struct {
	Ranks  []Rank `json:"ranks"`
	Folder string `json:"folder"` // job folder, removed when the front died without doing so
}

// Descriptors of the keeper: the socket, then standard input, output and error of each rank.
const (
	socketFD    = 3
	firstRankFD = 4
)

// command is the front's wish: a signal to the process groups of all ranks that live, or the end.
type command struct {
	Signal syscall.Signal `json:"signal,omitempty"`
	Finish bool           `json:"finish,omitempty"` // kill whatever is left and exit
}

// notice is what happened to a rank.
type notice struct {
	Rank    int                `json:"rank"`
	PID     int                `json:"pid,omitempty"`    // it was started
	Failed  syscall.Errno      `json:"failed,omitempty"` // it could not be started
	Exited  bool               `json:"exited,omitempty"` // it ended, with the status
	Status  syscall.WaitStatus `json:"status,omitempty"`
	AtNanos int64              `json:"at,omitempty"` // when the end was seen, Unix nanoseconds
}
