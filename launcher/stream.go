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
)

// Sizes of a stream.
const (
	lineMax = 64 << 10 // a longer line is printed in parts
	lastMax = 8 << 10  // what is kept of a stream's last line
)

// stream is one output of one rank.
type stream struct {
	rank    int
	pipe    *os.File
	out     *sink    // the console's side; nil when the rank is not shown
	tag     string   // "[3]", or "" without tags
	file    *os.File // copy in the output folder; nil without one
	fileErr error    // why the copy is not complete

	cut bool // another stream's line was printed into this one's unfinished line; the console's

	mu   sync.Mutex
	last []byte // the last line that is not empty
	open []byte // the unfinished line at the end, as far as lastMax
}

// copy reads the pipe to its end. An unfinished line is printed after flush; 0 or less holds it back.
func (s *stream) copy(c *console, flush time.Duration) {
	defer s.close(c)
	buf := make([]byte, 0, lineMax)
	for {
		deadline := time.Time{}
		if len(buf) > 0 && flush > 0 {
			deadline = time.Now().Add(flush)
		}
		// A pipe that has no deadlines only prints unfinished lines later.
		_ = s.pipe.SetReadDeadline(deadline)
		n, err := s.pipe.Read(buf[len(buf):cap(buf)])
		s.keep(buf[len(buf) : len(buf)+n])
		buf = buf[:len(buf)+n]
		whole := bytes.LastIndexByte(buf, '\n') + 1
		if whole == 0 && len(buf) == cap(buf) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) {
			whole = len(buf)
		}
		if whole > 0 && s.out != nil {
			c.print(s, buf[:whole])
		}
		buf = buf[:copy(buf, buf[whole:])]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// keep copies new bytes to the file and remembers the last line.
func (s *stream) keep(b []byte) {
	if s.file != nil && s.fileErr == nil {
		_, s.fileErr = s.file.Write(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range bytes.Lines(b) {
		s.open = append(s.open, line[:min(len(line), lastMax-min(len(s.open), lastMax))]...)
		if line[len(line)-1] != '\n' {
			continue
		}
		if text := bytes.TrimSpace(s.open); len(text) > 0 {
			s.last = append(s.last[:0], text...)
		}
		s.open = s.open[:0]
	}
}

// lastLine is the last thing the rank said, an unfinished line included.
func (s *stream) lastLine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := bytes.TrimSpace(s.open); len(text) > 0 {
		return string(text)
	}
	return string(s.last)
}

func (s *stream) close(c *console) {
	s.pipe.Close()
	if s.out != nil {
		c.ended(s)
	}
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
