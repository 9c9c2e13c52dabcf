package collective

import (
	"encoding/binary"
	"fmt"
)

// packParts writes byte strings one after the other, each behind its length.
func packParts(parts [][]byte) []byte {
	size := 0
	for _, p := range parts {
		size += binary.MaxVarintLen64 + len(p)
	}
	b := make([]byte, 0, size)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// unpackParts reads n byte strings; they share b's memory.
func unpackParts(b []byte, n int) ([][]byte, error) {
	parts := make([][]byte, n)
	for i := range parts {
		size, k := binary.Uvarint(b)
		if k <= 0 || size > uint64(len(b)-k) {
			return nil, fmt.Errorf("%w: part %d of %d is cut off", ErrMalformed, i, n)
		}
		parts[i], b = b[k:k+int(size):k+int(size)], b[k+int(size):]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after the last of %d parts", ErrMalformed, len(b), n)
	}
	return parts, nil
}
