package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Snapshot is what a state page said at one moment.
type Snapshot struct {
	PID      int       // 0 = the page was never mapped: the program does not use the collective library
	Rank     int       // meaningful from Phase Joining on
	Size     int       // world size
	Phase    Phase     // how far the rank is
	RunID    string    // the run the rank joined
	Opened   time.Time // when the process mapped the page
	Updated  time.Time // the last change
	Finished uint64    // operations finished
	Overflow uint64    // operations that began while all slots were taken; Current does not show them
	Torn     bool      // the writer was stopped or died inside a write: fields may not fit together

	ErrKind Kind      // last error; KindNone = there was none
	Blamed  int       // world rank that the last error blames, -1 = nobody else
	ErrTime time.Time // when it happened
	ErrText string    // its text, at most 550 bytes

	Current []Operation // operations in flight, oldest first
	Recent  []Record    // the last finished operations, at most RecorderSize, oldest first
}

// Operation is an operation in flight.
type Operation struct {
	Op      string    // barrier, gather, call:NAME, join, ...
	Group   uint64    // group id, 0 = the world
	Seq     uint64    // sequence number in the group
	Since   time.Time // when it began
	Waiting int       // world rank it sleeps for, -1 = nobody in particular
	Count   int       // ranks known to have arrived
	Arrived []int     // which, ascending; only ranks below MaxBitmapRank
}

// Record is a finished operation.
type Record struct {
	Op    string // cut to 20 bytes
	Kind  Kind
	Group uint64
	Seq   uint64
	Start time.Time
	Took  time.Duration
	Bytes int64 // payload
}

// Read returns what page i, counted from 0, of the file at path says, also while its owner writes, is stopped, or is dead. It
// reads the file rather than mapping it, so nothing that the owner does to the file can hurt the reader.
func Read(path string, i int) (Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return Snapshot{}, fmt.Errorf("state: read page: %w", err)
	}
	defer f.Close()
	mem, begin := make([]byte, PageSize), int64(i)*PageSize
	var before, after [8]byte
	const attempts = 50
	for attempt := range attempts {
		_, err := f.ReadAt(before[:], begin+offLock)
		if err == nil {
			_, err = f.ReadAt(mem, begin)
		}
		if err == nil {
			_, err = f.ReadAt(after[:], begin+offLock)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("shorter than %d bytes", begin+PageSize)
			}
			return Snapshot{}, fmt.Errorf("state: read page %d of %q: %w", i, path, err)
		}
		torn := before != after || le.Uint64(before[:])&1 == 1
		if torn && attempt < attempts-1 {
			runtime.Gosched()
			continue
		}
		s, err := Decode(mem)
		if err != nil {
			return Snapshot{}, fmt.Errorf("state: read page %d of %q: %w", i, path, err)
		}
		s.Torn = torn
		return s, nil
	}
	return Snapshot{}, nil // unreachable: the last attempt returns
}

// Decode parses the bytes of a state page. Any content of the right size, magic and version decodes.
func Decode(mem []byte) (Snapshot, error) {
	if err := checkHeader(mem); err != nil {
		return Snapshot{}, fmt.Errorf("state: decode page: %w", err)
	}
	return decode(mem), nil
}

func decode(mem []byte) Snapshot {
	i32 := func(off int) int { return int(int32(le.Uint32(mem[off:]))) }
	at := func(off int) time.Time { return timeOf(le.Uint64(mem[off:])) }
	s := Snapshot{
		PID: i32(offPID), Rank: i32(offRank), Size: i32(offSize), Phase: Phase(le.Uint32(mem[offPhase:])),
		RunID:  name(mem[offRunID : offRunID+maxRunID]),
		Opened: at(offOpened), Updated: at(offUpdated),
		Finished: le.Uint64(mem[offFinished:]), Overflow: le.Uint64(mem[offOverflow:]),
		ErrKind: Kind(le.Uint32(mem[offErrKind:])), Blamed: i32(offBlamed), ErrTime: at(offErrTime),
	}
	n := min(int(le.Uint16(mem[offErrLen:])), maxErrText)
	s.ErrText = strings.ToValidUTF8(string(mem[offErrText:offErrText+n]), "?")
	for i := range Slots {
		b := mem[offSlots+i*slotSize:][:slotSize]
		if le.Uint32(b) == 0 {
			continue
		}
		op := Operation{Op: name(b[8 : 8+slotName]), Group: le.Uint64(b[32:]), Seq: le.Uint64(b[40:]),
			Since: timeOf(le.Uint64(b[48:])), Waiting: int(int32(le.Uint32(b[4:]))), Count: int(le.Uint32(b[56:]))}
		for r := range MaxBitmapRank {
			if b[slotBitmap+r/8]&(1<<(r%8)) != 0 {
				op.Arrived = append(op.Arrived, r)
			}
		}
		at := len(s.Current)
		for at > 0 && s.Current[at-1].Since.After(op.Since) {
			at--
		}
		s.Current = append(s.Current[:at], append([]Operation{op}, s.Current[at:]...)...)
	}
	first := uint64(0)
	if s.Finished > RecorderSize {
		first = s.Finished - RecorderSize
	}
	for i := first; i < s.Finished; i++ {
		b := mem[offRing+int(i%RecorderSize)*entrySize:][:entrySize]
		s.Recent = append(s.Recent, Record{Op: name(b[:entryName]), Kind: Kind(le.Uint32(b[20:])),
			Group: le.Uint64(b[24:]), Seq: le.Uint64(b[32:]), Start: timeOf(le.Uint64(b[40:])),
			Took: time.Duration(le.Uint64(b[48:])), Bytes: int64(le.Uint64(b[56:]))})
	}
	return s
}

func timeOf(ns uint64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(ns))
}

func name(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return strings.ToValidUTF8(string(b), "?")
}
