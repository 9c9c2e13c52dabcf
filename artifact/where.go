package artifact

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// place is an object or a list on the way to a byte of a text.
type place struct {
	list bool
	at   int    // in a list: the element's index
	key  string // in an object: the path of the member whose key has begun; "" before the first and after a comma
}

// longestPath is how many steps of a path are told.
const longestPath = 32

// pathAt is the way to the innermost value that has begun at a byte of a text, which need not be JSON behind that byte, and where the token begins that the
// byte is of.
func pathAt(text []byte, offset int) (open []place, begin int) {
	key := true // the next string is one
	for s := (scanner{text: text[:min(offset+1, len(text))]}); s.next() != 0; {
		begin = s.pos
		token := s.token()
		switch c := token[0]; c {
		case '{', '[':
			if begin < offset {
				open = append(open, place{list: c == '['})
				key = true
			}
		case '}', ']':
			if begin < offset && len(open) > 0 {
				open = open[:len(open)-1]
			}
		case ',':
			if n := len(open); n > 0 && begin < offset {
				open[n-1].at++
				open[n-1].key, key = "", true
			}
		case ':':
			key = false
		case '"':
			if n := len(open); key && n > 0 && !open[n-1].list {
				open[n-1].key = wholeKey(text, begin)
			}
		}
	}
	return open, begin
}

// pathOf is the JSON path, without the root's "$", of the innermost of the objects and lists that are open.
func pathOf(open []place) string {
	var path strings.Builder
	for i, p := range open {
		if i == longestPath {
			fmt.Fprintf(&path, "... (%d deep)", len(open))
			break
		}
		switch {
		case p.list:
			path.WriteString("[" + strconv.Itoa(p.at) + "]")
		case p.key != "":
			path.WriteString(p.key)
		}
	}
	return path.String()
}

// wholeKey is the path of the member whose key begins at a byte of a text, quoted as it stands where it is broken.
func wholeKey(text []byte, begin int) string {
	s := scanner{text: text, pos: begin}
	raw := s.token()
	var key string
	if json.Unmarshal(raw, &key) != nil {
		key = strings.Trim(string(raw[:min(len(raw), 40)]), `"`)
	}
	return memberPath(key)
}

// memberPath is the path of an object's member within the object.
func memberPath(key string) string {
	for i := range len(key) {
		if c := key[i]; c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return "[" + strconv.Quote(key) + "]"
		}
	}
	return "." + key
}
