package bench

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/fpmrun/fpmrun/gpu"
)

// What a DP leader tells the other workers of its engine is one frame of 64 bytes, little-endian:
//
//	 0  kind, and three bytes of zero
//	 4  number of rows
//	 8  bytes of the body
//	12  number of the step, modulo 2^32
//	16  the body, if it has at most 48 bytes; a longer one follows in a message of its own
//
// The body of a step is four numbers of 32 bits a row, slot, computed tokens, token ids and blocks, then all rows' token ids and then
// all rows' blocks, 32 bits each. A row without token ids computes what was sampled before. A step that goes on from the one before,
// row by row with one sampled token each and the same blocks, has no body: steady decode is one frame, however many blocks it reads.
const (
	frameSize  = 64
	frameHead  = 16
	frameShort = frameSize - frameHead // longest body inside the frame

	rowSize  = 16
	mostBody = 256 << 20 // a step of 256 MiB is none
)

// Kinds of frames. They cross the wire: append only.
const (
	frameStep   = 1 + iota // rows in the body
	frameNext              // the step before, one sampled token further
	frameFinite            // vote on the logits
	frameClose             // end
)

// frameWriter makes frames. It remembers the last step to tell when the next one needs no body.
type frameWriter struct {
	frame  [frameSize]byte
	long   []byte // body that does not fit the frame, or empty
	number uint32

	rows   []lastRow
	blocks []int32 // of all rows
}

// lastRow is where a row of the last step ended.
type lastRow struct {
	slot, end, blocks int
}

// bare makes a frame without rows.
func (w *frameWriter) bare(kind byte) {
	w.head(kind, 0, 0)
	w.long = w.long[:0]
}

func (w *frameWriter) head(kind byte, rows, body int) {
	b := w.frame[:]
	clear(b)
	b[0] = kind
	binary.LittleEndian.PutUint32(b[4:], uint32(rows))
	binary.LittleEndian.PutUint32(b[8:], uint32(body))
	binary.LittleEndian.PutUint32(b[12:], w.number)
}

// step makes the frame, and the body where that is long, of the next step.
func (w *frameWriter) step(step *gpu.Step) error {
	if w.goesOn(step) {
		w.number++
		w.bare(frameNext)
		for i := range w.rows {
			w.rows[i].end++
		}
		return nil
	}
	size := 0
	for i := range step.Rows {
		r := &step.Rows[i]
		size += rowSize + 4*(len(r.Tokens)+len(r.Blocks))
		if r.Slot < 0 || r.Slot > math.MaxInt32 || r.Computed < 0 || r.Computed > math.MaxInt32 || r.Tokens != nil && len(r.Tokens) == 0 {
			return fmt.Errorf("bench: row %d of a step has slot %d, %d computed tokens and %d to compute: want numbers from 0 to %d, and a token", i, r.Slot, r.Computed, r.New(), math.MaxInt32)
		}
	}
	if size > mostBody {
		return fmt.Errorf("bench: a step of %d rows takes %d bytes: at most %d reach the workers", len(step.Rows), size, mostBody)
	}
	w.number++
	w.head(frameStep, len(step.Rows), size)
	w.long = w.long[:0]
	body := w.frame[frameHead:frameHead]
	if size > frameShort {
		body = slices.Grow(w.long, size)
	}
	body = appendRows(body, step)
	if size > frameShort {
		w.long = body
	}
	w.rows, w.blocks = w.rows[:0], w.blocks[:0]
	for i := range step.Rows {
		r := &step.Rows[i]
		w.rows = append(w.rows, lastRow{r.Slot, r.Computed + r.New(), len(r.Blocks)})
		w.blocks = append(w.blocks, r.Blocks...)
	}
	return nil
}

func appendRows(b []byte, step *gpu.Step) []byte {
	put := func(n int) { b = binary.LittleEndian.AppendUint32(b, uint32(n)) }
	for i := range step.Rows {
		r := &step.Rows[i]
		put(r.Slot)
		put(r.Computed)
		put(len(r.Tokens))
		put(len(r.Blocks))
	}
	for i := range step.Rows {
		for _, id := range step.Rows[i].Tokens {
			b = binary.LittleEndian.AppendUint32(b, id)
		}
	}
	for i := range step.Rows {
		for _, block := range step.Rows[i].Blocks {
			b = binary.LittleEndian.AppendUint32(b, uint32(block))
		}
	}
	return b
}

// goesOn reports whether a step computes the sampled token after each row of the last one.
func (w *frameWriter) goesOn(step *gpu.Step) bool {
	if len(step.Rows) != len(w.rows) || len(step.Rows) == 0 {
		return false
	}
	at := 0
	for i, last := range w.rows {
		r := &step.Rows[i]
		if r.Tokens != nil || r.Slot != last.slot || r.Computed != last.end || !slices.Equal(r.Blocks, w.blocks[at:at+last.blocks]) {
			return false
		}
		at += last.blocks
	}
	return true
}

// frameReader reads frames into memory that it keeps: a step is good until depth more were read.
type frameReader struct {
	number uint32
	steps  []gpu.Step // ring; the last one read is at steps[at]
	at     int
	lists  []lists // ring; what the rows of the last step with a body point to is at lists[from]
	from   int
}

// lists are the token ids and blocks of a step's rows, one row after the other.
type lists struct {
	tokens []uint32
	blocks []int32
}

// newFrameReader makes a reader for an engine that has up to depth steps in flight.
func newFrameReader(depth int) frameReader {
	return frameReader{steps: make([]gpu.Step, depth+1), lists: make([]lists, depth+1)}
}

// body is the number of bytes that follow a frame in a message of their own.
func (r *frameReader) body(frame []byte) (int, error) {
	n := binary.LittleEndian.Uint32(frame[8:])
	switch {
	case n > mostBody:
		return 0, fmt.Errorf("bench: the leader announces a step of %d bytes: at most %d are one", n, mostBody)
	case n <= frameShort:
		return 0, nil
	}
	return int(n), nil
}

// step reads a step from its frame and, if that announced one, its long body.
func (r *frameReader) step(frame, long []byte) (*gpu.Step, error) {
	if n := binary.LittleEndian.Uint32(frame[12:]); n != r.number+1 {
		return nil, fmt.Errorf("bench: step %d from the leader after step %d", n, r.number)
	}
	rows, size := int(binary.LittleEndian.Uint32(frame[4:])), int(binary.LittleEndian.Uint32(frame[8:]))
	body := long
	if size <= frameShort {
		body = frame[frameHead : frameHead+size]
	}
	last := &r.steps[r.at]
	at := (r.at + 1) % len(r.steps)
	step := &r.steps[at]
	var err error
	if frame[0] == frameNext {
		if rows != 0 || size != 0 || len(last.Rows) == 0 {
			return nil, fmt.Errorf("bench: the leader goes on with %d rows in %d bytes after a step of %d rows", rows, size, len(last.Rows))
		}
		advance(step, last)
	} else if err = r.rows(step, rows, body); err != nil {
		return nil, err
	}
	r.number++
	r.at = at
	return step, nil
}

// advance makes a step that computes the sampled token after each row of the last one.
func advance(step, last *gpu.Step) {
	step.Rows = append(step.Rows[:0], last.Rows...)
	for i := range step.Rows {
		row := &step.Rows[i]
		row.Computed += row.New()
		row.Tokens = nil
	}
}

// rows reads a body.
func (r *frameReader) rows(step *gpu.Step, rows int, body []byte) error {
	malformed := func() error {
		return fmt.Errorf("bench: malformed step from the leader: %d rows in %d bytes", rows, len(body))
	}
	if rows > len(body)/rowSize {
		return malformed()
	}
	number := func(i int) int { return int(binary.LittleEndian.Uint32(body[4*i:])) }
	tokens, blocks := 0, 0 // cannot overflow: rows and counts have 32 bits
	for i := range rows {
		tokens += number(4*i + 2)
		blocks += number(4*i + 3)
	}
	if rows*rowSize+4*(tokens+blocks) != len(body) {
		return malformed()
	}
	from := (r.from + 1) % len(r.lists)
	l := &r.lists[from]
	l.tokens, l.blocks = slices.Grow(l.tokens[:0], tokens)[:tokens], slices.Grow(l.blocks[:0], blocks)[:blocks]
	at := rows * rowSize / 4
	for i := range l.tokens {
		l.tokens[i] = uint32(number(at + i))
	}
	at += tokens
	for i := range l.blocks {
		l.blocks[i] = int32(number(at + i))
	}
	r.from = from
	step.Rows = slices.Grow(step.Rows[:0], rows)[:rows]
	token, block := 0, 0
	for i := range step.Rows {
		nt, nb := number(4*i+2), number(4*i+3)
		step.Rows[i] = gpu.Row{Slot: number(4 * i), Computed: number(4*i + 1), Blocks: l.blocks[block : block+nb : block+nb]}
		if nt > 0 {
			step.Rows[i].Tokens = l.tokens[token : token+nt : token+nt]
		}
		token, block = token+nt, block+nb
	}
	return nil
}
