package launcher

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// spill is the room on disk that the streams of a job share for what a slow console has not taken.
type spill struct {
	dir   string
	limit int64 // bytes
	used  atomic.Int64
	err   atomic.Pointer[error] // why nothing can be written any more
}

// take reserves bytes; false when there is not so much left.
func (p *spill) take(n int64) bool {
	if p.err.Load() != nil {
		return false
	}
	if p.used.Add(n) > p.limit {
		p.used.Add(-n)
		return false
	}
	return true
}

func (p *spill) give(n int64) { p.used.Add(-n) }

// fail remembers the first reason for which spilling ended.
func (p *spill) fail(err error) { p.err.CompareAndSwap(nil, &err) }

// spillFile is one stream's queue on disk. The file has no name, so that nothing is left of it.
type spillFile struct {
	room       *spill
	file       *os.File
	head, tail int64 // what is waiting
	freed      int64 // up to here the disk has the space back
}

// freeStep is after how many bytes read the disk gets their space back.
const freeStep = 1 << 20

func (f *spillFile) empty() bool { return f.head == f.tail }

// write appends b; false, and nothing of it written, when there is no room.
func (f *spillFile) write(b []byte) bool {
	n := int64(len(b))
	if !f.room.take(n) {
		return false
	}
	if f.file == nil {
		file, err := unnamed(f.room.dir)
		if err != nil {
			f.room.fail(err)
			f.room.give(n)
			return false
		}
		f.file = file
	}
	if _, err := f.file.WriteAt(b, f.tail); err != nil {
		f.room.fail(err)
		f.room.give(n)
		return false
	}
	f.tail += n
	return true
}

// peek copies bytes from the front.
func (f *spillFile) peek(b []byte) (int, error) {
	n, err := f.file.ReadAt(b[:min(int64(len(b)), f.tail-f.head)], f.head)
	if err != nil {
		return n, fmt.Errorf("launcher: --output-spill: %w", err)
	}
	return n, nil
}

// skip removes n bytes from the front.
func (f *spillFile) skip(n int64) {
	f.head += n
	f.release()
}

// release gives the space of what was read back. A file system that cannot do so in the middle of a file gets it back
// once all is read.
func (f *spillFile) release() {
	if f.empty() {
		// Without its space back the job's room stays smaller than it could be.
		if f.file.Truncate(0) == nil {
			f.room.give(f.tail - f.freed)
			f.head, f.tail, f.freed = 0, 0, 0
		}
		return
	}
	if n := (f.head - f.freed) / freeStep * freeStep; n > 0 {
		if unix.Fallocate(int(f.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, f.freed, n) == nil {
			f.room.give(n)
			f.freed += n
		}
	}
}

func (f *spillFile) close() {
	if f.file != nil {
		f.file.Close()
		f.room.give(f.tail - f.freed)
	}
}

// unnamed opens a file that has no name in a folder.
func unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir+"/(spilled output)"), nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("open a file without a name in %q: %w", dir, err)
	}
	file, err := os.CreateTemp(dir, "fpmrun-spill-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}
