package artifact

import (
	"bytes"
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
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
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
		i := bytes.IndexAny(s.text[s.pos:], `"\`)
		if i < 0 {
			s.pos = len(s.text)
			return errCut
		}
		s.pos += i + 1
		if s.text[s.pos-1] == '"' {
			return nil
		}
		s.pos++ // what was escaped
		if s.pos > len(s.text) {
			s.pos = len(s.text)
			return errCut
		}
	}
}

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
		case ',', ' ', '\t', '\n', '\r':
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
