package launcher

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// openInput is a rank's standard input, and whether it is to be closed here once the rank has it. One rank alone reads a file
// or pipe directly; from a terminal, or for all ranks, the front copies. Other ranks read an empty stream.
func (j *job) openInput(rank int, in, null *os.File) (file *os.File, mine bool, err error) {
	choice := j.plan.options.Stdin
	switch {
	case j.plan.part.inputs != nil:
		return j.openLinked(rank, null)
	case in == nil, choice == StdinNone, choice != StdinAll && choice != rank, !readable(in):
		return null, false, nil
	case choice == rank && !term.IsTerminal(int(in.Fd())):
		return in, false, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, false, fmt.Errorf("launcher: standard input of rank %d: %w", rank, err)
	}
	j.stdin = append(j.stdin, write)
	return read, true, nil
}

// openLinked is the standard input of a rank that the head feeds, or the empty one.
func (j *job) openLinked(rank int, null *os.File) (file *os.File, mine bool, err error) {
	at := &j.plan.part
	if at.stdin != StdinAll && at.stdin != rank {
		return null, false, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, false, fmt.Errorf("launcher: standard input of rank %d: %w", rank, err)
	}
	at.inputs[rank] = write
	return read, true, nil
}

// readable reports whether reading from a file cannot stop this process: a terminal may be read by its foreground group
// only.
func readable(in *os.File) bool {
	if !term.IsTerminal(int(in.Fd())) {
		return true
	}
	group, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// feed copies the caller's input to the ranks, as fast as the slowest reads. A rank that has ended or closed its
// input is left out from then on.
func (j *job) feed(in io.Reader) {
	buf := make([]byte, 64<<10)
	targets := j.stdin
	for len(targets) > 0 {
		n, err := in.Read(buf)
		var open []*os.File
		for _, w := range targets {
			if _, werr := w.Write(buf[:n]); werr != nil {
				w.Close()
				continue
			}
			open = append(open, w)
		}
		targets = open
		if err != nil {
			break
		}
	}
	for _, w := range targets {
		w.Close()
	}
}
