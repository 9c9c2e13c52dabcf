package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// console prints the lines of all ranks, whole and one after the other. A line that is not finished may be printed
// too; it then owns the console until its newline, or for holdTime once another stream wants to print.
type console struct {
	mu       sync.Mutex
	freed    sync.Cond // the owner finished its line
	owner    *stream   // printed the unfinished line at the end of the console
	since    time.Time // when it did
	dangling *sink     // the unfinished line's stream has ended
	stamp    bool      // lines begin with the time
	line     []byte    // scratch of print
}

// holdTime is how long an unfinished line keeps others waiting.
const holdTime = time.Second

func newConsole(timestamp bool) *console {
	c := &console{stamp: timestamp}
	c.freed.L = &c.mu
	return c
}

// sink is one of the console's two outputs. After an error it drops everything; that the reader is gone is none to
// speak of.
type sink struct {
	w       io.Writer
	name    string
	console *console // that it belongs to
	closed  bool
	err     error
}

// newSinks makes the sinks of a job. They share a console where they lead to the same file, such as a terminal; else one that
// is stuck does not hold the other up.
func newSinks(out, err io.Writer, timestamp bool) (stdout, stderr *sink) {
	stdout = &sink{w: out, name: "stdout", console: newConsole(timestamp)}
	stderr = &sink{w: err, name: "stderr", console: stdout.console}
	if !same(out, err) {
		stderr.console = newConsole(timestamp)
	}
	return stdout, stderr
}

// same reports whether two writers are one, or lead to the same file.
func same(a, b io.Writer) bool {
	x, isFile := a.(*os.File)
	y, areFiles := b.(*os.File)
	if !isFile || !areFiles {
		return a == b
	}
	i, err := x.Stat()
	j, err2 := y.Stat()
	return err == nil && err2 == nil && os.SameFile(i, j)
}

func (s *sink) write(b []byte) {
	if s.closed {
		return
	}
	if _, err := s.w.Write(b); err != nil {
		s.closed = true
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, syscall.EBADF) {
			s.err = fmt.Errorf("launcher: %s: %w", s.name, err)
		}
	}
}

// print writes pieces of a stream's text, none of them empty. Text without a newline at its end makes the stream the
// console's owner.
func (c *console) print(s *stream, pieces [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acquire(s)
	begins := c.owner != s
	for _, text := range pieces {
		if c.stamp || s.tag != "" || s.cut {
			c.line = c.prefixed(c.line[:0], s, text, begins)
			s.out.write(c.line)
		} else {
			s.out.write(text)
		}
		begins = text[len(text)-1] == '\n'
	}
	c.owner = nil
	if !begins {
		c.owner, c.since = s, time.Now()
	}
	c.freed.Broadcast()
}

// prefixed appends text to b, with a prefix before each line. begins says whether a line begins with it.
func (c *console) prefixed(b []byte, s *stream, text []byte, begins bool) []byte {
	for len(text) > 0 {
		if begins {
			b = c.prefix(b, s)
		}
		end := bytes.IndexByte(text, '\n') + 1
		if begins = end > 0; !begins {
			end = len(text)
		}
		b = append(b, text[:end]...)
		text = text[end:]
	}
	return b
}

// acquire waits until no other stream's unfinished line is in the way, and ends it when it takes too long.
func (c *console) acquire(s *stream) {
	for c.owner != nil && c.owner != s {
		rest := holdTime - time.Since(c.since)
		if rest <= 0 {
			c.owner.out.write([]byte{'\n'})
			c.owner.cut = true
			c.owner = nil
			return
		}
		timer := time.AfterFunc(rest, c.freed.Broadcast)
		c.freed.Wait()
		timer.Stop()
	}
	if c.dangling != nil {
		c.dangling.write([]byte{'\n'})
		c.dangling = nil
	}
}

// prefix begins a line: the time, and the rank, marked where the line goes on with what was cut.
func (c *console) prefix(b []byte, s *stream) []byte {
	if c.stamp {
		b = time.Now().AppendFormat(b, "15:04:05.000 ")
	}
	if s.tag != "" && s.cut { // "[3]+: "
		b = append(append(b, s.tag[:len(s.tag)-2]...), "+: "...)
	} else {
		b = append(b, s.tag...)
	}
	s.cut = false
	return b
}

// ended forgets a stream. An unfinished line stays as it is until something follows.
func (c *console) ended(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner == s {
		c.owner, c.dangling = nil, s.out
		c.freed.Broadcast()
	}
}

// say prints a line of the launcher's own.
func (s *sink) say(line string) {
	s.console.print(&stream{out: s}, [][]byte{[]byte(line + "\n")})
}
