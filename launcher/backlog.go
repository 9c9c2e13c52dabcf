package launcher

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// backlogMemory is how many bytes of each of a rank's two outputs may wait in memory: 1 MiB a rank.
const backlogMemory = 512 << 10

// backlog is what a stream printed and the console has not taken: in memory first, then on disk. When neither has room,
// whoever adds waits, or the rest is dropped and counted.
type backlog struct {
	drop    bool
	dropped func(bytes int64) // is told how much was dropped in one go

	mu       sync.Mutex
	changed  sync.Cond
	mem      [][]byte // older than what is in the file; pieces end as what was added did
	size     int      // bytes in mem, and in the pieces that the console is taking
	file     spillFile
	lost     int64 // bytes dropped since something was added
	midLine  bool  // the last byte added is no newline
	finished bool  // nothing more comes
}

func newBacklog(room *spill, drop bool, dropped func(int64)) *backlog {
	q := &backlog{drop: drop, dropped: dropped, file: spillFile{room: room}}
	q.changed.L = &q.mu
	return q
}

// add appends b, which is not kept.
func (q *backlog) add(b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost > 0 && !q.admit(int64(len(b))) {
		q.lost += int64(len(b))
		return
	}
	for len(b) > 0 {
		if q.file.empty() && q.size == backlogMemory {
			q.waitAWhile()
		}
		n := q.store(b)
		if n > 0 {
			q.midLine = b[n-1] != '\n'
			b = b[n:]
			q.changed.Broadcast()
			continue
		}
		if q.drop {
			q.lost += int64(len(b))
			return
		}
		q.changed.Wait()
	}
}

// patience is how long memory may be full before output goes to disk: a console that takes a piece in this time is
// faster without the detour.
const patience = 100 * time.Millisecond

// waitAWhile waits until memory has room, but not longer than patience.
func (q *backlog) waitAWhile() {
	over := false
	timer := time.AfterFunc(patience, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		over = true
		q.changed.Broadcast()
	})
	defer timer.Stop()
	for q.size == backlogMemory && !over {
		q.changed.Wait()
	}
}

// store puts as much of b as there is room for into memory or, behind older data there, into the file.
func (q *backlog) store(b []byte) int {
	b = b[:min(len(b), lineMax)]
	if q.file.empty() {
		if n := min(len(b), backlogMemory-q.size); n > 0 {
			q.keep(b[:n])
			return n
		}
	}
	if q.file.write(b) {
		return len(b)
	}
	return 0
}

// keep copies b into memory, into one piece with what came before as long as they fit.
func (q *backlog) keep(b []byte) {
	q.size += len(b)
	if last := len(q.mem) - 1; last >= 0 && len(q.mem[last])+len(b) <= lineMax {
		q.mem[last] = append(q.mem[last], b...)
		return
	}
	var piece []byte
	if len(b) > lineMin {
		piece = (*largePieces.Get().(*[lineMax]byte))[:0]
	}
	q.mem = append(q.mem, append(piece, b...))
}

// largePieces are to be used again by any stream that prints much.
var largePieces = sync.Pool{New: func() any { return new([lineMax]byte) }}

// admit ends a gap of dropped bytes once half of the memory is free: a line in their place, so that many small gaps do not
// follow each other.
func (q *backlog) admit(n int64) bool {
	if !q.file.empty() || int64(q.size)+n > backlogMemory/2 && q.size > 0 {
		return false
	}
	q.note()
	return true
}

// note puts a line in the place of what was dropped.
func (q *backlog) note() {
	line := fmt.Sprintf("(%s bytes dropped)\n", grouped(q.lost))
	if q.midLine {
		line = "\n" + line
	}
	q.keep([]byte(line))
	q.midLine = false
	q.dropped(q.lost)
	q.lost = 0
}

// grouped writes a number with commas between groups of three digits.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// finish says that nothing more comes.
func (q *backlog) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = true
	q.changed.Broadcast()
}

// takeMax is how many pieces the console takes at once: half of the memory, so that there is room for more meanwhile.
const takeMax = backlogMemory / lineMax / 2

// take waits for data and returns the oldest pieces, nil at the end. The caller gives them back once they are printed.
func (q *backlog) take() [][]byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size == 0 && q.file.empty() && q.lost == 0 && !q.finished {
		q.changed.Wait()
	}
	switch {
	case q.size > 0:
	case !q.file.empty():
		q.refill()
	case q.lost > 0:
		q.note()
	default:
		return nil
	}
	n := min(len(q.mem), takeMax)
	pieces := slices.Clone(q.mem[:n])
	q.mem = slices.Delete(q.mem, 0, n)
	return pieces
}

// give takes back pieces that are printed.
func (q *backlog) give(pieces [][]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, piece := range pieces {
		q.size -= len(piece)
		if cap(piece) == lineMax {
			largePieces.Put((*[lineMax]byte)(piece[:lineMax]))
		}
	}
	q.changed.Broadcast()
}

// refill moves data from the file to the empty memory: whole lines where there are any, so that other streams need not
// wait for the rest. What cannot be read again is lost.
func (q *backlog) refill() {
	buf := make([]byte, lineMax)
	n, err := q.file.peek(buf)
	if err != nil {
		q.lost += q.file.tail - q.file.head
		q.file.skip(q.file.tail - q.file.head)
		q.note()
		return
	}
	if end := bytes.LastIndexByte(buf[:n], '\n') + 1; end > 0 {
		n = end
	}
	q.file.skip(int64(n))
	q.keep(buf[:n])
}
