package artifact

import (
	"bytes"
	"io"
)

// indenter writes JSON text with two spaces of indentation. What it is given must be JSON; white space in it does not matter.
type indenter struct {
	w     io.Writer
	buf   []byte
	depth int
	empty bool // the last token opened an object or a list
}

// flushSize is how much an indenter collects before it writes.
const flushSize = 1 << 20

// line begins a new line.
func (o *indenter) line() {
	const spaces = "                                                                "
	o.buf = append(o.buf, '\n')
	n := 2 * o.depth
	for ; n > len(spaces); n -= len(spaces) {
		o.buf = append(o.buf, spaces...)
	}
	o.buf = append(o.buf, spaces[:n]...)
}

// part writes the next part of the text.
func (o *indenter) part(text []byte) error {
	in := scanner{text: text}
	for c := in.next(); c != 0; c = in.next() {
		if o.empty && c != '}' && c != ']' {
			o.line()
		}
		switch c {
		case '{', '[':
			o.depth++
		case '}', ']':
			o.depth--
			if !o.empty {
				o.line()
			}
		}
		o.buf = append(o.buf, in.token()...)
		switch c {
		case ',':
			o.line()
		case ':':
			o.buf = append(o.buf, ' ')
		}
		o.empty = c == '{' || c == '['
		if len(o.buf) >= flushSize {
			if err := o.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *indenter) flush() error {
	_, err := o.w.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}

// writeIndented writes a whole value and a newline.
func writeIndented(w io.Writer, p pieces) error {
	o := indenter{w: w, buf: make([]byte, 0, flushSize+4096)}
	for _, text := range p {
		if err := o.part(text); err != nil {
			return err
		}
	}
	o.buf = append(o.buf, '\n')
	return o.flush()
}

// sameText reports whether two JSON texts differ in white space only.
func sameText(a, b []byte) bool {
	x, y := scanner{text: a}, scanner{text: b}
	for {
		if c, d := x.next(), y.next(); c == 0 || d == 0 {
			return x.pos == len(a) && y.pos == len(b)
		}
		if !bytes.Equal(x.token(), y.token()) {
			return false
		}
	}
}
