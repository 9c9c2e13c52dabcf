package collective

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

const maxDepth = 32 // nesting of a msgpack value

// encodeValue is msgpack.Marshal with the class of error.
func encodeValue(v any) ([]byte, error) {
	b, err := msgpack.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: encode %T: %w", ErrMalformed, v, err)
	}
	return b, nil
}

// decodeValue decodes one msgpack value into v after the bytes have been checked.
func decodeValue(b []byte, v any) error {
	if err := checkValue(b); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := msgpack.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: decode into %T: %w", ErrMalformed, v, err)
	}
	return nil
}

// checkValue walks over one msgpack value without recursion and without allocating: declared lengths must
// fit the remaining bytes, nesting at most maxDepth, nothing may follow. A decoder that believes the
// lengths is safe on what passes.
func checkValue(b []byte) error {
	var left [maxDepth + 1]uint64 // values still to come per level
	depth := 0
	left[0] = 1
	for pos := 0; ; {
		for depth > 0 && left[depth] == 0 {
			depth--
		}
		if depth == 0 && left[0] == 0 {
			if pos != len(b) {
				return fmt.Errorf("msgpack: %d bytes after the value", len(b)-pos)
			}
			return nil
		}
		if pos >= len(b) {
			return errors.New("msgpack: value is cut off")
		}
		left[depth]--
		head, body, items, err := item(b[pos:])
		if err != nil {
			return err
		}
		rest := uint64(len(b) - pos - head)
		if body > rest || items > rest {
			return fmt.Errorf("msgpack: %d bytes or items declared, %d bytes left", max(body, items), rest)
		}
		pos += head + int(body)
		if items > 0 {
			if depth == maxDepth {
				return fmt.Errorf("msgpack: nested deeper than %d", maxDepth)
			}
			depth++
			left[depth] = items
		}
	}
}

// item returns the size of the head of the value that b begins with, of its body, and how many values it contains.
func item(b []byte) (head int, body, items uint64, err error) {
	c := b[0]
	num := func(n int) uint64 {
		if len(b) < 1+n {
			err = errors.New("msgpack: length is cut off")
			return 0
		}
		switch n {
		case 1:
			return uint64(b[1])
		case 2:
			return uint64(binary.BigEndian.Uint16(b[1:]))
		}
		return uint64(binary.BigEndian.Uint32(b[1:]))
	}
	switch {
	case c <= 0x7f || c >= 0xe0: // small integers
		return 1, 0, 0, nil
	case c <= 0x8f:
		return 1, 0, 2 * uint64(c&15), nil
	case c <= 0x9f:
		return 1, 0, uint64(c & 15), nil
	case c <= 0xbf:
		return 1, uint64(c & 31), 0, nil
	case c == 0xc1:
		return 0, 0, 0, errors.New("msgpack: unused code 0xc1")
	case c <= 0xc3: // nil, booleans
		return 1, 0, 0, nil
	case c <= 0xc6: // bin
		n := 1 << (c - 0xc4)
		body = num(n)
		return 1 + n, body, 0, err
	case c <= 0xc9: // ext: one more byte for the type
		n := 1 << (c - 0xc7)
		body = num(n) + 1
		return 1 + n, body, 0, err
	case c <= 0xcb: // floats
		return 1, 4 << (c - 0xca), 0, nil
	case c <= 0xcf:
		return 1, 1 << (c - 0xcc), 0, nil
	case c <= 0xd3:
		return 1, 1 << (c - 0xd0), 0, nil
	case c <= 0xd8: // fixext
		return 1, 1 + 1<<(c-0xd4), 0, nil
	case c <= 0xdb: // str
		n := 1 << (c - 0xd9)
		body = num(n)
		return 1 + n, body, 0, err
	case c <= 0xdd: // array
		n := 2 << (c - 0xdc)
		items = num(n)
		return 1 + n, 0, items, err
	}
	n := 2 << (c - 0xde) // map
	items = 2 * num(n)
	return 1 + n, 0, items, err
}
