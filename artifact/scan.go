package artifact

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// scanner finds the borders of JSON values without decoding them. It reads a document once and fast; what is inside the
// values it returns is checked by whoever decodes them.
type scanner struct {
	text []byte
	pos  int
}

// errCut says that the text ends inside a value.
var errCut = errors.New("the text ends inside a value")

func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case '\n':
			s.indentation()
		case ' ', '\t', '\r':
			s.pos++
		default:
			return
		}
	}
}

// indentation moves behind a newline and most of the spaces after it, eight at a time: of an indented text they are a third.
func (s *scanner) indentation() {
	const spaces = 0x2020202020202020
	s.pos++
	for s.pos+8 <= len(s.text) && binary.LittleEndian.Uint64(s.text[s.pos:]) == spaces {
		s.pos += 8
	}
}

// next is the byte after white space, or 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.pos == len(s.text) {
		return 0
	}
	return s.text[s.pos]
}

// expect consumes one byte.
func (s *scanner) expect(c byte) error {
	switch got := s.next(); {
	case got == c:
		s.pos++
		return nil
	case s.pos == len(s.text):
		return errCut
	default:
		return fmt.Errorf("want %q, got %q", c, got)
	}
}

// skipString moves behind the string that begins here.
func (s *scanner) skipString() error {
	for s.pos++; ; {
		i := bytes.IndexByte(s.text[s.pos:], '"')
		if i < 0 {
			s.pos = len(s.text)
			return errCut
		}
		// Each backslash takes the byte after it along.
		part := s.text[s.pos : s.pos+i]
		s.pos += i + 1
		for {
			j := bytes.IndexByte(part, '\\')
			if j < 0 {
				return nil
			}
			if j+1 == len(part) {
				break // the quote is escaped
			}
			part = part[j+2:]
		}
	}
}

// token consumes the token that begins here: a string, a bracket, a comma, a colon, or what stands up to the next of those.
func (s *scanner) token() []byte {
	begin := s.pos
	switch c := s.text[begin]; {
	case c == '"':
		_ = s.skipString() // one that is cut ends with the text
	case delimits[c]:
		s.pos++
	default:
		for s.pos < len(s.text) && !delimits[s.text[s.pos]] {
			s.pos++
		}
	}
	return s.text[begin:s.pos]
}

// delimits holds the bytes that end a number, true, false or null.
var delimits = func() (set [256]bool) {
	for _, c := range []byte(" \t\r\n,:{}[]\"") {
		set[c] = true
	}
	return set
}()

// value returns the text of the value that begins here.
func (s *scanner) value() (json.RawMessage, error) {
	s.space()
	begin, depth := s.pos, 0
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; c {
		case '"':
			if err := s.skipString(); err != nil {
				return nil, err
			}
			if depth == 0 {
				return s.text[begin:s.pos], nil
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				s.pos++
				return s.text[begin:s.pos], nil
			}
			if depth < 0 {
				return s.scalar(begin)
			}
		case '\n':
			if depth == 0 {
				return s.scalar(begin)
			}
			s.indentation()
			continue
		case ',', ' ', '\t', '\r':
			if depth == 0 {
				return s.scalar(begin)
			}
		}
		s.pos++
	}
	if depth > 0 || begin == s.pos {
		return nil, errCut
	}
	return s.scalar(begin)
}

// scalar is a number, true, false or null that ends here.
func (s *scanner) scalar(begin int) (json.RawMessage, error) {
	if begin == s.pos {
		return nil, fmt.Errorf("want a value, got %q", s.text[s.pos])
	}
	return s.text[begin:s.pos], nil
}

// object calls f for each member of the object that begins here. A key that comes twice is an error.
func (s *scanner) object(f func(key string, value json.RawMessage) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for first := true; ; first = false {
		if s.next() == '}' && first {
			s.pos++
			return nil
		}
		if s.next() != '"' {
			return s.expect('"')
		}
		begin := s.pos
		if err := s.skipString(); err != nil {
			return err
		}
		var key string
		if err := json.Unmarshal(s.text[begin:s.pos], &key); err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("key %q comes twice", key)
		}
		seen[key] = true
		if err := s.expect(':'); err != nil {
			return err
		}
		value, err := s.value()
		if err != nil {
			return err
		}
		if err := f(key, value); err != nil {
			return err
		}
		if s.next() == '}' {
			s.pos++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// array lists the elements of the array that begins here.
func (s *scanner) array() ([]json.RawMessage, error) {
	if err := s.expect('['); err != nil {
		return nil, err
	}
	list := []json.RawMessage{}
	for {
		if s.next() == ']' && len(list) == 0 {
			s.pos++
			return list, nil
		}
		value, err := s.value()
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		if s.next() == ']' {
			s.pos++
			return list, nil
		}
		if err := s.expect(','); err != nil {
			return nil, err
		}
	}
}

// objectMembers are the members of an object by key.
func objectMembers(raw json.RawMessage) (map[string]json.RawMessage, error) {
	found := map[string]json.RawMessage{}
	s := scanner{text: raw}
	err := s.object(func(key string, value json.RawMessage) error {
		found[key] = value
		return nil
	})
	return found, err
}

// listElements are the elements of a list; nil has none.
func listElements(raw json.RawMessage) ([]json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	s := scanner{text: raw}
	return s.array()
}
