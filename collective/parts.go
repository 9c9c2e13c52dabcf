package collective

import (
	"encoding/binary"
	"fmt"
)

// part is one rank's contribution on its way through a tree: the bytes, or, for one that is too large to be passed on by
// others, only its size.
type part struct {
	bytes  []byte
	size   int
	direct bool // bytes is nil: they come from their rank itself
}

// newPart makes a part that travels through the tree when it has at most limit bytes.
func newPart(b []byte, limit int) part {
	if len(b) > limit {
		return part{size: len(b), direct: true}
	}
	return part{bytes: b, size: len(b)}
}

// packParts writes parts one after the other: twice the size, plus one when only the size is told, then the bytes.
func packParts(parts []part) []byte {
	total := 0
	for _, p := range parts {
		total += binary.MaxVarintLen64 + len(p.bytes)
	}
	b := make([]byte, 0, total)
	for _, p := range parts {
		head := uint64(p.size) << 1
		if p.direct {
			head |= 1
		}
		b = binary.AppendUvarint(b, head)
		b = append(b, p.bytes...)
	}
	return b
}

// unpackParts reads n parts, whose sizes may be up to limit; they share b's memory.
func unpackParts(b []byte, n int, limit int64) ([]part, error) {
	parts := make([]part, n)
	for i := range parts {
		head, k := binary.Uvarint(b)
		size, direct := head>>1, head&1 == 1
		if k <= 0 || size > uint64(limit) || !direct && size > uint64(len(b)-k) {
			return nil, fmt.Errorf("%w: part %d of %d is cut off or larger than %d bytes", ErrMalformed, i, n, limit)
		}
		b = b[k:]
		parts[i] = part{size: int(size), direct: direct}
		if !direct {
			parts[i].bytes, b = b[:size:size], b[size:]
		}
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after the last of %d parts", ErrMalformed, len(b), n)
	}
	return parts, nil
}
