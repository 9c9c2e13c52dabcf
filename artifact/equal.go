package artifact

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// equalTree is value equality of decoded JSON: numbers compare numerically (1 = 1.0), key order does not
// matter, an absent key is not a null one.
func equalTree(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalTree)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalTree)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && equalNumber(a, b)
	}
	return a == b
}

func equalNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	// Two integers with different digits differ even where float64 cannot tell them apart.
	_, intX := a.Int64()
	_, intY := b.Int64()
	return errX == nil && errY == nil && x == y && (intX != nil || intY != nil)
}

// equalRaw is equalTree on text; equal tokens are equal without decoding.
func equalRaw(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) || sameText(a, b) {
		return true
	}
	x, errX := decodeTree(a)
	y, errY := decodeTree(b)
	return errX == nil && errY == nil && equalTree(x, y)
}
