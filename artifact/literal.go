package artifact

import (
	"bytes"
	"fmt"
	"strconv"
)

// word consumes a literal.
func (s *scanner) word(want string) error {
	rest := s.text[s.pos:]
	switch {
	case bytes.HasPrefix(rest, []byte(want)):
		s.pos += len(want)
		return nil
	case len(rest) < len(want) && string(rest) == want[:len(rest)]:
		s.pos = len(s.text)
		return errCut
	}
	return fmt.Errorf("want %s", want)
}

// number consumes a number: an optional sign, digits without a leading zero, a fraction, an exponent.
func (s *scanner) number() error {
	s.one('-')
	ok := s.one('0') || s.digits()
	if ok && s.one('.') {
		ok = s.digits()
	}
	if ok && (s.one('e') || s.one('E')) {
		_ = s.one('+') || s.one('-')
		ok = s.digits()
	}
	switch {
	case ok:
		return nil
	case s.pos == len(s.text):
		return errCut
	default:
		return fmt.Errorf("want a value, got %s", strconv.QuoteRune(rune(s.text[s.pos])))
	}
}

// one consumes a byte if it is c.
func (s *scanner) one(c byte) bool {
	if s.pos < len(s.text) && s.text[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// digits consumes decimal digits and reports whether there was one.
func (s *scanner) digits() bool {
	from := s.pos
	for s.pos < len(s.text) && s.text[s.pos]-'0' <= 9 {
		s.pos++
	}
	return s.pos > from
}
