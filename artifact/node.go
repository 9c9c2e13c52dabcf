package artifact

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Violation is one rule that a document breaks: where, and what would be right.
type Violation struct {
	Path    string // JSON path from the document's root, such as $.results[3].fpms[0].wall_time
	Message string
}

func (v Violation) String() string { return v.Path + ": " + v.Message }

// violations collects what a walk over a document finds.
type violations []Violation

func (l *violations) add(path, format string, args ...any) {
	*l = append(*l, Violation{Path: path, Message: fmt.Sprintf(format, args...)})
}

// node is a value in a decoded document together with its place. Its readers note a violation when the
// value has another type, and return the zero value; a missing node stays silent after its first complaint.
type node struct {
	path  string
	value any
	ok    bool // the value exists
	found *violations
}

func root(value any, found *violations) node {
	return node{path: "$", value: value, ok: true, found: found}
}

func (n node) fail(format string, args ...any) { n.found.add(n.path, format, args...) }

// wrong notes that the node does not hold what was wanted.
func (n node) wrong(want string) {
	if n.ok {
		n.fail("want %s, got %s", want, describe(n.value))
	}
}

// get is a member of an object, required.
func (n node) get(key string) node {
	child := n.optional(key)
	if !child.ok && n.isObject() {
		child.fail("missing")
	}
	return child
}

// optional is a member of an object that may be absent.
func (n node) optional(key string) node {
	object, _ := n.value.(map[string]any)
	value, ok := object[key]
	return node{path: n.path + memberPath(key), value: value, ok: ok, found: n.found}
}

func (n node) isObject() bool { _, ok := n.value.(map[string]any); return ok && n.ok }
func (n node) isNull() bool   { return !n.ok || n.value == nil }

// object checks that the node is an object; with keys given, that it has no others.
func (n node) object(keys ...string) bool {
	object, ok := n.value.(map[string]any)
	if !ok {
		n.wrong("an object")
		return false
	}
	if len(keys) == 0 {
		return true
	}
	for _, k := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(keys, k) {
			n.found.add(n.path+memberPath(k), "unknown key; known are %s", strings.Join(keys, ", "))
		}
	}
	return true
}

// list is the elements of an array.
func (n node) list() []node {
	array, ok := n.value.([]any)
	if !ok {
		n.wrong("a list")
		return nil
	}
	nodes := make([]node, len(array))
	for i, v := range array {
		nodes[i] = node{path: n.path + "[" + strconv.Itoa(i) + "]", value: v, ok: true, found: n.found}
	}
	return nodes
}

// int is a JSON integer: 4.0, 1e3, true and "4" are none.
func (n node) int() (int, bool) {
	number, ok := n.value.(json.Number)
	if !ok || strings.ContainsAny(number.String(), ".eE") {
		n.wrong("an integer")
		return 0, false
	}
	v, err := strconv.Atoi(number.String())
	if err != nil {
		n.wrong("an integer of at most 64 bits")
		return 0, false
	}
	return v, true
}

// atLeast is an integer with a lower bound.
func (n node) atLeast(low int) int {
	v, ok := n.int()
	if ok && v < low {
		n.fail("want an integer of at least %d, got %d", low, v)
	}
	return v
}

// maxRanks bounds a number of ranks that was read from a file, since memory is set aside for each.
const maxRanks = 1 << 16

// ranks is a number of ranks.
func (n node) ranks() int {
	v := n.atLeast(1)
	if v > maxRanks {
		n.fail("want at most %d ranks, got %d", maxRanks, v)
	}
	return min(max(v, 1), maxRanks)
}

// float is a finite number.
func (n node) float() (float64, bool) {
	number, ok := n.value.(json.Number)
	if !ok {
		n.wrong("a number")
		return 0, false
	}
	v, err := number.Float64()
	if err != nil {
		n.wrong("a finite number")
		return 0, false
	}
	return v, true
}

func (n node) text() string {
	s, ok := n.value.(string)
	if !ok {
		n.wrong("a string")
	}
	return s
}

// oneOf is a string out of a fixed set.
func (n node) oneOf(allowed ...string) string {
	s, ok := n.value.(string)
	if !ok || !slices.Contains(allowed, s) {
		n.wrong("one of " + strings.Join(allowed, ", "))
	}
	return s
}

func (n node) bool() bool {
	b, ok := n.value.(bool)
	if !ok {
		n.wrong("true or false")
	}
	return b
}

// is checks for one exact value: a string, bool, nil or int.
func (n node) is(want any) bool {
	var same bool
	switch w := want.(type) {
	case int:
		number, ok := n.value.(json.Number)
		same = ok && number.String() == strconv.Itoa(w)
	default:
		same = n.ok && n.value == want
	}
	if !same {
		n.wrong(describe(want))
	}
	return same
}

// describe prints a value for a message, shortened.
func describe(v any) string {
	text, err := encode(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	if len(text) > 60 {
		return string(text[:57]) + "..."
	}
	return string(text)
}
