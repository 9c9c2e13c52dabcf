package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of the page and its tables; see the package comment.
const (
	PageSize      = 64 << 10 // bytes of a state page
	RecorderSize  = 256      // operations that the flight recorder remembers
	Slots         = 16       // operations in flight that a page can show
	MaxBitmapRank = 4096     // ranks at and above this have no bit in Arrived, they are only counted

	version = 1
	magic   = "fpmstate"

	offLock     = 16
	offPID      = 24
	offRank     = 28
	offSize     = 32
	offPhase    = 36
	offOpened   = 40
	offUpdated  = 48
	offFinished = 56
	offOverflow = 64
	offErrKind  = 72
	offBlamed   = 76
	headerSize  = 80 // what Create writes of a page
	offErrTime  = 80
	offErrLen   = 88
	offErrText  = 90
	maxErrText  = 550
	offRunID    = 640
	maxRunID    = 64
	offRing     = 1024
	entrySize   = 64
	entryName   = 20
	offSlots    = 20480
	slotSize    = 1024
	slotName    = 24
	slotBitmap  = 128
)

var le = binary.LittleEndian

// Page is a mapped state page, owned by the rank's process. All methods may be called by several
// goroutines. Nothing here makes a system call after Open.
type Page struct {
	mu     sync.Mutex
	mem    []byte
	mapped bool
	start  [Slots]int64 // start of the operation in each slot, 0 = free
}

// Slot names an operation in flight on its page. The zero value and NoSlot are accepted everywhere and
// change nothing but the flight recorder.
type Slot struct {
	index int // slot + 1, 0 = no slot
	op    string
	group uint64
	seq   uint64
	start int64
}

// Create makes a file of n state pages at path, with mode 0600; an existing file is an error. It is the launcher's call,
// before it starts the ranks. The file system gives the space at once, so a rank that maps its page cannot be hit
// by a full one later.
func Create(path string, n int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("state: create pages: %w", err)
	}
	err = allocate(f, n*PageSize)
	header := make([]byte, headerSize)
	putHeader(header)
	for i := 0; i < n && err == nil; i++ {
		_, err = f.WriteAt(header, int64(i)*PageSize)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("state: write pages %q: %w", path, err)
	}
	return nil
}

// allocate makes a new file that long: by one call where the file system can, else by writing zeros.
func allocate(f *os.File, size int) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, int64(size))
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		_, err = f.Write(make([]byte, size))
	}
	return err
}

func putHeader(mem []byte) {
	copy(mem, magic)
	le.PutUint32(mem[8:], version)
	le.PutUint32(mem[12:], PageSize)
	putI32(mem[offBlamed:], -1)
}

// Open maps page i, counted from 0, of the file that the launcher created at path, and claims it for this process: everything
// that an earlier process left is cleared. It refuses a file without that page, and another magic or version.
func Open(path string, i int) (*Page, error) {
	mem, err := mapFile(path, int64(i)*PageSize, PageSize, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(mem); err != nil {
		return nil, fmt.Errorf("state: open page %d of %q: %w", i, path, joinUnmap(err, mem))
	}
	p := &Page{mem: mem, mapped: true}
	p.claim()
	return p, nil
}

// NewPrivate returns a page in ordinary memory, for a rank that no launcher watches.
func NewPrivate() *Page {
	p := &Page{mem: make([]byte, PageSize)}
	putHeader(p.mem)
	p.claim()
	return p
}

func joinUnmap(err error, mem []byte) error {
	if uerr := unix.Munmap(mem); uerr != nil {
		return fmt.Errorf("%w (and munmap: %w)", err, uerr)
	}
	return err
}

// mapFile maps size bytes from offset on of a file that has them; size 0 maps the whole of a small file.
func mapFile(path string, offset int64, size, prot int) ([]byte, error) {
	flag := os.O_RDONLY
	if prot&unix.PROT_WRITE != 0 {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, fmt.Errorf("state: open page: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("state: open page: %w", err)
	}
	if size == 0 {
		size = int(min(info.Size(), 1<<26))
	}
	if !info.Mode().IsRegular() || size < 64 || offset < 0 || info.Size() < offset+int64(size) {
		return nil, fmt.Errorf("state: open page %q: %d bytes, mode %v: no page at offset %d", path, info.Size(), info.Mode(), offset)
	}
	mem, err := unix.Mmap(int(f.Fd()), offset, size, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("state: map page %q: %w", path, err)
	}
	return mem, nil
}

func checkHeader(mem []byte) error {
	switch {
	case len(mem) != PageSize:
		return fmt.Errorf("%d bytes, want %d", len(mem), PageSize)
	case string(mem[:8]) != magic:
		return fmt.Errorf("magic %q, want %q", mem[:8], magic)
	case le.Uint32(mem[8:]) != version:
		return fmt.Errorf("version %d, this program knows %d", le.Uint32(mem[8:]), version)
	}
	return nil
}

func putI32(b []byte, v int) { le.PutUint32(b, uint32(int32(v))) }

func (p *Page) lock() *uint64 { return (*uint64)(unsafe.Pointer(&p.mem[offLock])) }

// write runs f inside the sequence lock. The atomic additions order the plain stores of f
// between them for a reader in another process. An odd value left by a dead owner stays usable.
func (p *Page) write(now int64, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mem == nil {
		return
	}
	l := p.lock()
	if atomic.LoadUint64(l)&1 == 0 {
		atomic.AddUint64(l, 1)
	}
	f()
	le.PutUint64(p.mem[offUpdated:], uint64(now))
	atomic.AddUint64(l, 1)
}

func (p *Page) claim() {
	now := time.Now().UnixNano()
	p.write(now, func() {
		clear(p.mem[offPID:])
		putI32(p.mem[offBlamed:], -1)
		le.PutUint32(p.mem[offPID:], uint32(os.Getpid()))
		le.PutUint64(p.mem[offOpened:], uint64(now))
	})
}

// Start says which rank of how large a world this process is about to join.
func (p *Page) Start(rank, size int, runID string) {
	p.write(time.Now().UnixNano(), func() {
		putI32(p.mem[offRank:], rank)
		putI32(p.mem[offSize:], size)
		putName(p.mem[offRunID:offRunID+maxRunID], runID)
		le.PutUint32(p.mem[offPhase:], uint32(Joining))
	})
}

// SetPhase records how far the rank is.
func (p *Page) SetPhase(ph Phase) {
	p.write(time.Now().UnixNano(), func() { le.PutUint32(p.mem[offPhase:], uint32(ph)) })
}

// Begin records that an operation began: its name (at most 24 bytes are kept), the group's id (0 = the world) and its
// sequence number in the group.
func (p *Page) Begin(op string, group, seq uint64) Slot { return p.BeginAt(time.Now(), op, group, seq) }

// BeginAt is Begin for a caller that has looked at the clock.
func (p *Page) BeginAt(now time.Time, op string, group, seq uint64) Slot {
	s := Slot{op: op, group: group, seq: seq, start: now.UnixNano()}
	p.write(s.start, func() {
		for i := range p.start {
			if p.start[i] != 0 {
				continue
			}
			p.start[i] = s.start
			s.index = i + 1
			b := p.slot(s)
			clear(b)
			le.PutUint32(b, 1)
			putI32(b[4:], -1)
			putName(b[8:8+slotName], op)
			le.PutUint64(b[32:], group)
			le.PutUint64(b[40:], seq)
			le.PutUint64(b[48:], uint64(s.start))
			return
		}
		le.PutUint64(p.mem[offOverflow:], le.Uint64(p.mem[offOverflow:])+1)
	})
	return s
}

func (p *Page) slot(s Slot) []byte {
	return p.mem[offSlots+(s.index-1)*slotSize:][:slotSize]
}

// Waiting records that the operation is about to sleep until the given world rank sends something; -1
// = nobody in particular.
func (p *Page) Waiting(s Slot, rank int) {
	if s.index == 0 {
		return
	}
	p.write(time.Now().UnixNano(), func() { putI32(p.slot(s)[4:], rank) })
}

// Arrived records that a world rank is known to have entered the operation.
func (p *Page) Arrived(s Slot, rank int) {
	if s.index == 0 || rank < 0 {
		return
	}
	p.write(s.start, func() {
		b := p.slot(s)
		if rank < MaxBitmapRank {
			bit := byte(1) << (rank % 8)
			if b[slotBitmap+rank/8]&bit != 0 {
				return
			}
			b[slotBitmap+rank/8] |= bit
		}
		le.PutUint32(b[56:], le.Uint32(b[56:])+1)
	})
}

// End records that the operation is over, in the flight recorder, and frees its slot. bytes is the payload.
func (p *Page) End(s Slot, kind Kind, bytes int64) { p.EndAt(time.Now(), s, kind, bytes) }

// EndAt is End at a time that the caller has read already.
func (p *Page) EndAt(at time.Time, s Slot, kind Kind, bytes int64) {
	now := at.UnixNano()
	p.write(now, func() {
		if s.index != 0 {
			clear(p.slot(s)[:slotBitmap])
			p.start[s.index-1] = 0
		}
		n := le.Uint64(p.mem[offFinished:])
		b := p.mem[offRing+int(n%RecorderSize)*entrySize:][:entrySize]
		putName(b[:entryName], s.op)
		le.PutUint32(b[20:], uint32(kind))
		le.PutUint64(b[24:], s.group)
		le.PutUint64(b[32:], s.seq)
		le.PutUint64(b[40:], uint64(s.start))
		le.PutUint64(b[48:], uint64(now-s.start))
		le.PutUint64(b[56:], uint64(bytes))
		le.PutUint64(p.mem[offFinished:], n+1)
	})
}

// Fail records the rank's last error: its kind, the world rank that it blames (-1 = nobody, or this
// rank) and its text.
func (p *Page) Fail(kind Kind, blamed int, text string) {
	for len(text) > maxErrText {
		_, n := utf8.DecodeLastRuneInString(text[:maxErrText+1])
		text = text[:max(maxErrText+1-n, maxErrText-utf8.UTFMax)]
	}
	now := time.Now().UnixNano()
	p.write(now, func() {
		le.PutUint32(p.mem[offErrKind:], uint32(kind))
		putI32(p.mem[offBlamed:], blamed)
		le.PutUint64(p.mem[offErrTime:], uint64(now))
		le.PutUint16(p.mem[offErrLen:], uint16(copy(p.mem[offErrText:offErrText+maxErrText], text)))
	})
}

// Snapshot returns what the page says now.
func (p *Page) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mem == nil {
		return Snapshot{Blamed: -1}
	}
	return decode(p.mem)
}

// Close unmaps the page; what it says stays in the file. Later calls do nothing.
func (p *Page) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	mem := p.mem
	p.mem = nil
	if mem == nil || !p.mapped {
		return nil
	}
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("state: unmap page: %w", err)
	}
	return nil
}

func putName(dst []byte, s string) { clear(dst[copy(dst, s):]) }
