package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of a stream.
const (
	lineMin = 512      // room for the lines of a rank that prints little
	lineMax = 64 << 10 // a longer line is printed in parts
	lastMax = 8 << 10  // what is kept of a stream's last line
)

// stream is one output of one rank.
type stream struct {
	rank    int
	pipe    *os.File
	out     *sink    // the console's side; nil when the rank is not shown
	backlog *backlog // what waits for it
	tag     string   // "[3]: ", or "" without tags
	file    *os.File // copy in the output folder; nil without one
	fileErr error    // why the copy is not complete

	cut bool // another stream's line was printed into this one's unfinished line; the console's

	mu   sync.Mutex
	at   time.Time // of the last output
	last []byte    // the last line that is not empty
	open []byte    // the unfinished line at the end, as far as lastMax
}

// copy reads the pipe to its end. An unfinished line is printed after flush; 0 or less holds it back. It returns when the
// console has taken everything.
func (s *stream) copy(flush time.Duration) {
	var printed chan struct{} // closed when nothing is left to print; nil before the first output
	buf := make([]byte, 0, lineMin)
	timed := false
	for {
		if limited := len(buf) > 0 && flush > 0; limited || timed {
			deadline := time.Time{}
			if limited {
				deadline = time.Now().Add(flush)
			}
			// A pipe that has no deadlines only prints unfinished lines later.
			_ = s.pipe.SetReadDeadline(deadline)
			timed = limited
		}
		n, err := s.pipe.Read(buf[len(buf):cap(buf)])
		s.keep(buf[len(buf) : len(buf)+n])
		buf = buf[:len(buf)+n]
		whole := bytes.LastIndexByte(buf, '\n') + 1
		if full := len(buf) == cap(buf); full && cap(buf) < lineMax {
			buf = append(make([]byte, 0, lineMax), buf...)
			s.widen()
		} else if whole == 0 && full || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) {
			whole = len(buf)
		}
		if whole > 0 && s.out != nil {
			if printed == nil {
				printed = make(chan struct{})
				go s.print(printed)
			}
			s.backlog.add(buf[:whole])
		}
		buf = buf[:copy(buf, buf[whole:])]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	s.close()
	if printed != nil {
		s.backlog.finish()
		<-printed
	}
}

// pipeSize is the room of the pipe of a rank that prints much.
const pipeSize = 1 << 20

// widen gives the stream's pipe more room, and the one that the console may lead to; pipes that stay as they are, and consoles that are none, work too.
func (s *stream) widen() {
	files := []*os.File{s.pipe}
	if s.out != nil {
		if f, ok := s.out.w.(*os.File); ok {
			files = append(files, f)
		}
	}
	for _, f := range files {
		if raw, err := f.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
		}
	}
}

// print hands the backlog to the console until nothing comes any more.
func (s *stream) print(printed chan<- struct{}) {
	defer close(printed)
	defer s.out.console.ended(s)
	for pieces := s.backlog.take(); pieces != nil; pieces = s.backlog.take() {
		s.out.console.print(s, pieces)
		s.backlog.give(pieces)
	}
	s.backlog.file.close()
}

// keep copies new bytes to the file and remembers the last line.
func (s *stream) keep(b []byte) {
	if s.file != nil && s.fileErr == nil {
		_, s.fileErr = s.file.Write(b)
	}
	if len(b) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Now()
	newline := bytes.LastIndexByte(b, '\n')
	if newline >= 0 {
		if text := lastText(s.open, b[:newline]); text != nil {
			s.last = append(s.last[:0], text...)
		}
		s.open = s.open[:0]
	}
	rest := b[newline+1:]
	s.open = append(s.open, rest[:min(len(rest), lastMax-min(len(s.open), lastMax))]...)
}

// lastText is the last line with text in it, as far as lastMax, of the lines in b, the first of which began with open.
func lastText(open, b []byte) []byte {
	for {
		begin := bytes.LastIndexByte(b, '\n') + 1
		line := b[begin:]
		if begin == 0 {
			line = append(open[:len(open):len(open)], line[:min(len(line), lastMax-min(len(open), lastMax))]...)
		}
		if text := bytes.TrimSpace(line[:min(len(line), lastMax)]); len(text) > 0 {
			return text
		}
		if begin == 0 {
			return nil
		}
		b = b[:begin-1]
	}
}

// lastLine is the last thing the rank said, an unfinished line included.
func (s *stream) lastLine() string {
	text, _ := s.lastLineAt()
	return text
}

// lastLineAt is the last line and when something was printed last; never is the zero time.
func (s *stream) lastLineAt() (string, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := bytes.TrimSpace(s.open); len(text) > 0 {
		return string(text), s.at
	}
	return string(s.last), s.at
}

func (s *stream) close() {
	s.pipe.Close()
	if s.file != nil {
		s.fileErr = errors.Join(s.fileErr, s.file.Close())
	}
}

// createFile opens the stream's file in the output folder.
func (s *stream) createFile(dir, suffix string) error {
	var err error
	s.file, err = os.Create(filepath.Join(dir, fmt.Sprintf("rank-%04d.%s", s.rank, suffix)))
	return err
}
