package artifact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Canonical returns the canonical JSON of a value: object keys sorted by code point, no spaces, everything
// outside printable ASCII escaped, integers digit for digit and floats as Python prints them.
func Canonical(v any) ([]byte, error) {
	text, err := encode(v)
	if err != nil {
		return nil, err
	}
	tree, err := decodeTree(text)
	if err != nil {
		return nil, err
	}
	return appendCanonical(nil, tree)
}

// encode is json.Marshal without the escaping of <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("artifact: encode: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func appendCanonical(b []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendASCII(b, v), nil
	case json.Number:
		return appendNumber(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendASCII(b, k), ':')
			if b, err = appendCanonical(b, v[k]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("artifact: %T has no canonical JSON", v)
}

func appendNumber(b []byte, n json.Number) ([]byte, error) {
	if !strings.ContainsAny(n.String(), ".eE") {
		return append(b, n...), nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("artifact: number %s: %w", n, err)
	}
	return append(b, floatText(f)...), nil
}

// appendASCII quotes a string as Python's json.dumps does by default.
func appendASCII(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= ' ' && r <= '~':
			b = append(b, byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}
