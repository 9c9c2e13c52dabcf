package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxDepth is how deep values may be nested.
const maxDepth = 1000

// decodeTree reads JSON (RFC 8259) into maps, slices, strings, bools, nil and json.Number, which keeps every digit. A key that
// comes twice in one object and text that is not UTF-8 are errors.
func decodeTree(text []byte) (any, error) { return newTreeDecoder().decode(text) }

// treeDecoder decodes values one after the other. Keys, which repeat, are stored once.
type treeDecoder struct {
	scanner
	keys map[string]string
}

func newTreeDecoder() *treeDecoder { return &treeDecoder{keys: map[string]string{}} }

func (d *treeDecoder) decode(text []byte) (any, error) {
	d.scanner = scanner{text: text}
	tree, err := d.value(0)
	if err == nil && d.next() != 0 {
		err = errors.New("more data after the JSON value")
	}
	if err != nil {
		return nil, fmt.Errorf("artifact: not JSON at byte %d: %w", d.pos, err)
	}
	return tree, nil
}

func (d *treeDecoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch c := d.next(); c {
	case '{':
		return d.objectTree(depth)
	case '[':
		return d.listTree(depth)
	case '"':
		raw, err := d.stringText()
		if err != nil {
			return nil, err
		}
		return unquote(raw)
	case 't':
		return true, d.word("true")
	case 'f':
		return false, d.word("false")
	case 'n':
		return nil, d.word("null")
	}
	begin := d.pos
	if err := d.number(); err != nil {
		return nil, err
	}
	return json.Number(d.text[begin:d.pos]), nil
}

func (d *treeDecoder) objectTree(depth int) (any, error) {
	object := map[string]any{}
	d.pos++
	if d.next() == '}' {
		d.pos++
		return object, nil
	}
	for {
		if d.next() != '"' {
			return nil, d.expect('"')
		}
		raw, err := d.stringText()
		if err != nil {
			return nil, err
		}
		key, known := d.keys[string(raw)]
		if !known {
			if key, err = unquote(raw); err != nil {
				return nil, err
			}
			d.keys[string(raw)] = key
		}
		if err := d.expect(':'); err != nil {
			return nil, err
		}
		before := len(object)
		value, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if object[key] = value; len(object) == before {
			return nil, fmt.Errorf("key %q comes twice", key)
		}
		if d.next() == '}' {
			d.pos++
			return object, nil
		}
		if err := d.expect(','); err != nil {
			return nil, err
		}
	}
}

func (d *treeDecoder) listTree(depth int) (any, error) {
	list := []any{}
	d.pos++
	if d.next() == ']' {
		d.pos++
		return list, nil
	}
	for {
		value, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		if d.next() == ']' {
			d.pos++
			return list, nil
		}
		if err := d.expect(','); err != nil {
			return nil, err
		}
	}
}

// stringText is the string that begins here, without its quotes.
func (d *treeDecoder) stringText() ([]byte, error) {
	begin := d.pos + 1
	if err := d.skipString(); err != nil {
		return nil, err
	}
	return d.text[begin : d.pos-1], nil
}

// unquote is the value of a string's text.
func unquote(raw []byte) (string, error) {
	plain := true
	for _, c := range raw {
		if c < ' ' {
			return "", fmt.Errorf("control character %#x in a string", c)
		}
		plain = plain && c != '\\'
	}
	if !utf8.Valid(raw) {
		return "", errors.New("a string is not UTF-8")
	}
	if plain {
		return string(raw), nil
	}
	var s string
	err := json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &s)
	return s, err
}
