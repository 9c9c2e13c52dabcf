package model

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// mapping is a file that is mapped into memory, read-only, when its bytes are first asked for. Pages that are never
// touched are never read.
type mapping struct {
	file *os.File
	size int64 // when it was opened

	once sync.Once
	data []byte
	err  error
}

func openMapping(path string) (*mapping, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &mapping{file: f, size: info.Size()}, nil
}

// bytes maps the file. A file that became shorter since it was opened is refused, because touching a page behind its
// end would kill the process.
func (m *mapping) bytes() ([]byte, error) {
	m.once.Do(func() {
		info, err := m.file.Stat()
		switch {
		case err != nil:
			m.err = err
		case info.Size() < m.size:
			m.err = fmt.Errorf("the file shrank from %d to %d bytes", m.size, info.Size())
		default:
			m.data, m.err = unix.Mmap(int(m.file.Fd()), 0, int(m.size), unix.PROT_READ, unix.MAP_PRIVATE)
		}
	})
	return m.data, m.err
}

// close unmaps and closes the file.
func (m *mapping) close() error {
	m.once.Do(func() { m.err = os.ErrClosed })
	var err error
	if m.data != nil {
		err = unix.Munmap(m.data)
		m.data, m.err = nil, os.ErrClosed
	}
	if cerr := m.file.Close(); err == nil {
		err = cerr
	}
	return err
}
