package state

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxJobRanks is the largest world a job page is made for.
const MaxJobRanks = 1 << 20

const (
	jobMagic      = "fpmjob\x00\x00"
	jobHeader     = 4096
	offGeneration = 16
	offPausedAt   = 24
	offPausedFor  = 32
)

// Exit is how a rank's process ended.
type Exit struct {
	Status    int  // exit status, or the signal's number
	Signalled bool // Status is the number of the signal that killed it
}

// String says it in words: "exited with status 7", "was killed by signal 9 (killed)".
func (e Exit) String() string {
	if e.Signalled {
		return fmt.Sprintf("was killed by signal %d (%v)", e.Status, unix.Signal(e.Status))
	}
	return fmt.Sprintf("exited with status %d", e.Status)
}

// Job is a mapped job page. All methods may be called by several goroutines and processes; only the
// launcher's Job (from CreateJob) may be written.
type Job struct {
	mem  []byte
	size int
}

// CreateJob makes the job page at path for a world of size ranks (mode 0600, must not exist) and maps
// it for writing.
func CreateJob(path string, size int) (*Job, error) {
	if size < 1 || size > MaxJobRanks {
		return nil, fmt.Errorf("state: create job page %q: world size %d, want 1 to %d", path, size, MaxJobRanks)
	}
	mem := make([]byte, jobHeader+8*size)
	copy(mem, jobMagic)
	le.PutUint32(mem[8:], version)
	le.PutUint32(mem[12:], uint32(size))
	if err := writeNew(path, mem); err != nil {
		return nil, err
	}
	return mapJob(path, unix.PROT_READ|unix.PROT_WRITE)
}

// writeNew writes a file that must not exist yet.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("state: create job page: %w", err)
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("state: write job page %q: %w", path, err)
	}
	return nil
}

// OpenJob maps the job page at path for reading.
func OpenJob(path string) (*Job, error) { return mapJob(path, unix.PROT_READ) }

func mapJob(path string, prot int) (*Job, error) {
	mem, err := mapFile(path, 0, 0, prot)
	if err != nil {
		return nil, err
	}
	size := int(le.Uint32(mem[12:]))
	switch {
	case string(mem[:8]) != jobMagic:
		err = fmt.Errorf("magic %q, want %q", mem[:8], jobMagic)
	case le.Uint32(mem[8:]) != version:
		err = fmt.Errorf("version %d, this program knows %d", le.Uint32(mem[8:]), version)
	case size < 1 || size > MaxJobRanks || len(mem) != jobHeader+8*size:
		err = fmt.Errorf("%d bytes do not fit world size %d", len(mem), size)
	}
	if err != nil {
		return nil, fmt.Errorf("state: open job page %q: %w", path, joinUnmap(err, mem))
	}
	return &Job{mem: mem, size: size}, nil
}

func (j *Job) word(off int) *uint64 { return (*uint64)(unsafe.Pointer(&j.mem[off])) }

// Size returns the world size.
func (j *Job) Size() int { return j.size }

// Generation returns a number that changes with every change of the page. One load.
func (j *Job) Generation() uint64 { return atomic.LoadUint64(j.word(offGeneration)) }

// SetExit records how a rank ended. The first record of a rank stands; a rank outside the world is ignored.
func (j *Job) SetExit(rank int, e Exit) {
	if rank < 0 || rank >= j.size {
		return
	}
	v := uint64(1)<<32 | uint64(uint32(e.Status)&0x7fffffff)
	if e.Signalled {
		v |= 1 << 31
	}
	if atomic.CompareAndSwapUint64(j.word(jobHeader+8*rank), 0, v) {
		atomic.AddUint64(j.word(offGeneration), 1)
	}
}

// Exit returns how a rank ended; ok is false while it runs or when it is outside the world.
func (j *Job) Exit(rank int) (e Exit, ok bool) {
	if rank < 0 || rank >= j.size {
		return Exit{}, false
	}
	v := atomic.LoadUint64(j.word(jobHeader + 8*rank))
	if v>>32 == 0 {
		return Exit{}, false
	}
	return Exit{Status: int(v & 0x7fffffff), Signalled: v&(1<<31) != 0}, true
}

// Pause marks that the launcher suspended the job: ranks stop counting time limits. A second Pause changes nothing.
func (j *Job) Pause() {
	if atomic.CompareAndSwapUint64(j.word(offPausedAt), 0, uint64(time.Now().UnixNano())) {
		atomic.AddUint64(j.word(offGeneration), 1)
	}
}

// Resume ends a Pause; without one it changes nothing.
func (j *Job) Resume() {
	at := atomic.LoadUint64(j.word(offPausedAt))
	if at == 0 {
		return
	}
	atomic.AddUint64(j.word(offPausedFor), uint64(max(time.Now().UnixNano()-int64(at), 0)))
	atomic.StoreUint64(j.word(offPausedAt), 0)
	atomic.AddUint64(j.word(offGeneration), 1)
}

// Paused returns whether the job is suspended now, and how long all finished suspensions took together.
func (j *Job) Paused() (now bool, total time.Duration) {
	return atomic.LoadUint64(j.word(offPausedAt)) != 0, time.Duration(atomic.LoadUint64(j.word(offPausedFor)))
}

// Close unmaps the page; no other method may be called after it or at the same time.
func (j *Job) Close() error {
	if err := unix.Munmap(j.mem); err != nil {
		return fmt.Errorf("state: unmap job page: %w", err)
	}
	return nil
}
