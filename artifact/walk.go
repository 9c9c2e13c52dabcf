package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// walker goes through JSON text that it reads piece by piece, so that a document needs no more memory than the largest value that is taken whole. All of the
// text is verified. Its errors are JSONErrors, ErrNotReady for a text that ends too early, and those of reading.
type walker struct {
	in    io.Reader
	file  string // for errors
	piece int    // how much is read at a time, at least
	buf   []byte // the text from byte base on, as far as it is read
	base  int64
	pos   int // in buf
	ended bool
	open  []place
	inKey bool
}

func newWalker(in io.Reader, file string) walker { return walker{in: in, file: file, piece: walkPiece} }

// Sizes of what is read at a time, and of the largest value that is taken whole.
const (
	walkPiece   = 1 << 20
	walkLargest = 1 << 29
)

// fill reads more text behind what is there. What is passed already is forgotten.
func (w *walker) fill() error {
	n := copy(w.buf, w.buf[w.pos:])
	w.base += int64(w.pos)
	w.buf, w.pos = w.buf[:n], 0
	if n > walkLargest {
		return w.fail(0, fmt.Errorf("a value of more than %d bytes", walkLargest))
	}
	w.buf = slices.Grow(w.buf, max(w.piece, n)) // twice as much for a long value, so that it is gone over a few times only
	got, err := io.ReadAtLeast(w.in, w.buf[n:cap(w.buf)], w.piece)
	w.buf = w.buf[:n+got]
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		w.ended = true
		return nil
	}
	if err != nil {
		return unread(err)
	}
	return nil
}

// next is the byte after white space, or 0 at the end.
func (w *walker) next() (byte, error) {
	for {
		s := scanner{text: w.buf, pos: w.pos}
		s.space()
		if w.pos = s.pos; w.pos < len(w.buf) {
			return w.buf[w.pos], nil
		}
		if w.ended {
			return 0, nil
		}
		if err := w.fill(); err != nil {
			return 0, err
		}
	}
}

// fail is an error about the byte at pos.
func (w *walker) fail(pos int, err error) error {
	return inFile(&JSONError{Path: "$" + pathOf(w.open), Offset: w.base + int64(pos), Err: err}, w.file)
}

// expect consumes a byte.
func (w *walker) expect(want byte) error {
	got, err := w.next()
	switch {
	case err != nil:
		return err
	case w.pos == len(w.buf):
		return w.fail(w.pos, errCut)
	case got != want:
		return w.fail(w.pos, fmt.Errorf("want %q, got %q", want, got))
	}
	w.pos++
	return nil
}

// take returns the text that check moves over, which is good until the next call; at is its first byte.
func (w *walker) take(check func(*verifier) error) (raw json.RawMessage, at int64, err error) {
	for {
		if _, err := w.next(); err != nil {
			return nil, 0, err
		}
		v := verifier{scanner: scanner{text: w.buf, pos: w.pos}, part: !w.ended}
		err := check(&v)
		if err == nil {
			raw, at, w.pos = w.buf[w.pos:v.pos:v.pos], w.base+int64(w.pos), v.pos
			return raw, at, nil
		}
		if !errors.Is(err, errCut) || w.ended {
			if w.inKey {
				w.open[len(w.open)-1].key = wholeKey(w.buf, w.pos)
			}
			open, _ := pathAt(w.buf[w.pos:], v.pos-w.pos)
			return nil, 0, inFile(&JSONError{Path: "$" + pathOf(slices.Concat(w.open, open)), Offset: w.base + int64(v.pos), Err: err}, w.file)
		}
		if err := w.fill(); err != nil {
			return nil, 0, err
		}
	}
}

// value is the text of the value that begins here, which is good until the next call, and where it begins.
func (w *walker) value() (raw json.RawMessage, at int64, err error) {
	return w.take(func(v *verifier) error { return v.value(len(w.open)) })
}

// decode reads the value that begins here into what v points to.
func (w *walker) decode(v any) error {
	raw, at, err := w.value()
	if err != nil {
		return err
	}
	if err := decodeTyped(raw, v); err != nil {
		return &JSONError{File: w.file, Path: "$" + pathOf(w.open) + err.Path, Offset: at + err.Offset, Err: err.Err}
	}
	return nil
}

// object calls f for each member of the object that begins here; f consumes the value.
func (w *walker) object(f func(key string) error) error {
	if err := w.expect('{'); err != nil {
		return err
	}
	w.open = append(w.open, place{})
	defer func() { w.open = w.open[:len(w.open)-1] }()
	if c, err := w.next(); c == '}' || err != nil {
		w.pos++
		return err
	}
	for seen := map[string]bool{}; ; {
		c, err := w.next()
		if err != nil {
			return err
		}
		if c != '"' {
			return w.expect('"')
		}
		var key []byte
		w.inKey = true
		_, at, err := w.take(func(v *verifier) (err error) { key, err = v.quoted(); return err })
		if err != nil {
			return err
		}
		w.inKey = false
		name := string(key)
		w.open[len(w.open)-1].key = memberPath(name)
		if seen[name] {
			return w.fail(int(at-w.base), fmt.Errorf("key %q comes twice", name))
		}
		seen[name] = true
		if err := w.expect(':'); err != nil {
			return err
		}
		if err := f(name); err != nil {
			return err
		}
		if c, err = w.next(); err != nil {
			return err
		}
		if c == '}' {
			w.pos++
			return nil
		}
		if err := w.expect(','); err != nil {
			return err
		}
		w.open[len(w.open)-1].key = ""
	}
}

// list calls f for each element of the list that begins here; f consumes it.
func (w *walker) list(f func() error) error {
	if err := w.expect('['); err != nil {
		return err
	}
	w.open = append(w.open, place{list: true})
	defer func() { w.open = w.open[:len(w.open)-1] }()
	if c, err := w.next(); c == ']' || err != nil {
		w.pos++
		return err
	}
	for {
		if err := f(); err != nil {
			return err
		}
		c, err := w.next()
		if err != nil {
			return err
		}
		if c == ']' {
			w.pos++
			return nil
		}
		if err := w.expect(','); err != nil {
			return err
		}
		w.open[len(w.open)-1].at++
	}
}

// skip passes over the value that begins here, in pieces down to a number of levels.
func (w *walker) skip(levels int) error {
	c, err := w.next()
	switch {
	case err != nil:
		return err
	case c == '{' && levels > 0:
		return w.object(func(string) error { return w.skip(levels - 1) })
	case c == '[' && levels > 0:
		return w.list(func() error { return w.skip(levels - 1) })
	}
	_, _, err = w.value()
	return err
}

// over checks that nothing follows.
func (w *walker) over() error {
	if _, err := w.next(); err != nil {
		return err
	}
	if w.pos < len(w.buf) {
		return w.fail(w.pos, errors.New("more data after the JSON value"))
	}
	return nil
}
