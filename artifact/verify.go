package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSONError says where in a file JSON is broken, or holds what no reader of the format could take.
type JSONError struct {
	File   string
	Path   string // JSON path of the innermost value that has begun, such as $.results[3].fpms
	Offset int64  // in bytes, in the text: of a compressed file in the decompressed one
	Err    error
}

func (e *JSONError) Error() string {
	return fmt.Sprintf("artifact: %q: %s: %s", e.File, e.Path, e.at())
}

func (e *JSONError) Unwrap() error { return e.Err }

// at is the message without file and path.
func (e *JSONError) at() string { return fmt.Sprintf("byte %d: %v", e.Offset, e.Err) }

// verifier checks values without decoding them: that they are JSON (RFC 8259) in UTF-8, nested no deeper than maxDepth, without a key that comes twice in
// an object and without a number beyond the range of a 64-bit float. After an error it stands at the fault.
type verifier struct {
	scanner
	keys [][]byte // unescaped, of the objects that are open, the innermost one's last
	part bool     // more text follows, which a number at the end of this one may go on in
}

// manyKeys is from how many members on an object's keys are looked up instead of compared.
const manyKeys = 24

// verify checks that text is one value. The place in an error is within text.
func verify(text []byte) *JSONError {
	v := verifier{scanner: scanner{text: text}}
	err := v.value(0)
	if err == nil {
		if v.space(); v.pos < len(text) {
			err = errors.New("more data after the JSON value")
		}
	}
	if err == nil {
		return nil
	}
	open, _ := pathAt(text, v.pos)
	return &JSONError{Path: "$" + pathOf(open), Offset: int64(v.pos), Err: err}
}

func (v *verifier) value(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch v.next() {
	case '{':
		return v.members(depth)
	case '[':
		return v.elements(depth)
	case '"':
		_, err := v.quoted()
		return err
	case 't':
		return v.word("true")
	case 'f':
		return v.word("false")
	case 'n':
		return v.word("null")
	}
	begin := v.pos
	if err := v.number(); err != nil {
		return err
	}
	return v.inRange(begin)
}

// members checks the object that begins here.
func (v *verifier) members(depth int) error {
	first := len(v.keys)
	defer func() { v.keys = v.keys[:first] }()
	var many map[string]bool
	v.pos++
	if v.next() == '}' {
		v.pos++
		return nil
	}
	for {
		if v.next() != '"' {
			return v.expect('"')
		}
		begin := v.pos
		key, err := v.quoted()
		if err != nil {
			return err
		}
		if v.twice(key, first, &many) {
			v.pos = begin
			return fmt.Errorf("key %q comes twice", key)
		}
		v.keys = append(v.keys, key)
		if err := v.expect(':'); err != nil {
			return err
		}
		if err := v.value(depth + 1); err != nil {
			return err
		}
		if v.next() == '}' {
			v.pos++
			return nil
		}
		if err := v.expect(','); err != nil {
			return err
		}
	}
}

// twice reports whether the object whose keys begin at first has a key already. many is nil until there are many.
func (v *verifier) twice(key []byte, first int, many *map[string]bool) bool {
	open := v.keys[first:]
	if len(open) < manyKeys {
		for _, k := range open {
			if bytes.Equal(k, key) {
				return true
			}
		}
		return false
	}
	if *many == nil {
		*many = map[string]bool{}
		for _, k := range open {
			(*many)[string(k)] = true
		}
	}
	if (*many)[string(key)] {
		return true
	}
	(*many)[string(key)] = true
	return false
}

// elements checks the list that begins here.
func (v *verifier) elements(depth int) error {
	v.pos++
	if v.next() == ']' {
		v.pos++
		return nil
	}
	for {
		if err := v.value(depth + 1); err != nil {
			return err
		}
		if v.next() == ']' {
			v.pos++
			return nil
		}
		if err := v.expect(','); err != nil {
			return err
		}
	}
}

// quoted checks the string that begins here and returns what it stands for.
func (v *verifier) quoted() ([]byte, error) {
	begin, escaped := v.pos, false
	for v.pos++; v.pos < len(v.text); {
		switch c := v.text[v.pos]; {
		case plainByte[c]:
			v.pos++
		case c == '"':
			v.pos++
			raw := v.text[begin+1 : v.pos-1]
			if !escaped {
				return raw, nil
			}
			s, err := unquote(raw)
			return []byte(s), err
		case c == '\\':
			escaped = true
			if err := v.escape(); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, fmt.Errorf("control character %#x in a string", c)
		default:
			r, size := utf8.DecodeRune(v.text[v.pos:])
			if r == utf8.RuneError && size == 1 {
				if !utf8.FullRune(v.text[v.pos:]) {
					v.pos = len(v.text)
					return nil, errCut
				}
				return nil, errors.New("a string is not UTF-8")
			}
			v.pos += size
		}
	}
	return nil, errCut
}

// escape moves behind the backslash that stands here and what it escapes.
func (v *verifier) escape() error {
	rest := v.text[v.pos:]
	switch {
	case len(rest) == 1:
		v.pos = len(v.text)
		return errCut
	case strings.IndexByte(`"\/bfnrt`, rest[1]) >= 0:
		v.pos += 2
		return nil
	case rest[1] != 'u':
		return fmt.Errorf("a backslash before %s", strconv.QuoteRune(rune(rest[1])))
	}
	for i := 2; i < 6; i++ {
		if i == len(rest) {
			v.pos = len(v.text)
			return errCut
		}
		if c := rest[i]; (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return errors.New(`\u without four hexadecimal digits`)
		}
	}
	v.pos += 6
	return nil
}

// inRange checks the number from begin to here.
func (v *verifier) inRange(begin int) error {
	raw := v.text[begin:v.pos]
	if v.part && v.pos == len(v.text) {
		return errCut
	}
	const digits = 300 // of a number without an exponent that is in range, whatever they are
	if len(raw) < digits && bytes.IndexByte(raw, 'e') < 0 && bytes.IndexByte(raw, 'E') < 0 {
		return nil
	}
	if _, err := strconv.ParseFloat(string(raw), 64); err != nil {
		v.pos = begin
		return fmt.Errorf("number %s is beyond the range of a 64-bit float", describe(json.RawMessage(raw)))
	}
	return nil
}

// plainByte holds the bytes that stand for themselves in a string.
var plainByte = func() (set [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		set[c] = c != '"' && c != '\\'
	}
	return set
}()
