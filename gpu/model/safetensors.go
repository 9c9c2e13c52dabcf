package model

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
)

// mostHeaderBytes bounds the header of a safetensors file, as the format's own library does.
const mostHeaderBytes = 100 << 20

// dtypeBits are the value sizes of safetensors' types. Only those that floats reads can be weights here.
var dtypeBits = map[string]uint64{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}

// stored is one tensor of a safetensors file.
type stored struct {
	Name       string
	Type       string
	Shape      []int
	Begin, End int64 // bytes from the beginning of the file
}

// readHeader reads the header of a safetensors file of size bytes: 8 bytes of little-endian length N, N bytes of JSON
// that name every tensor's type, shape and byte range, and the values, without holes or overlaps. Nothing is believed
// before it was compared with size. The tensors come back in the order of their bytes.
func readHeader(file string, r io.ReaderAt, size int64) ([]stored, error) {
	fail := func(tensor, format string, args ...any) error {
		return &WeightsError{File: file, Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
	}
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, fail("", "%d bytes are too few for a safetensors file", size)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, fail("", "reading the header's length: %v", err)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > mostHeaderBytes || int64(length) > size-int64(len(prefix)) {
		return nil, fail("", "a header of %d bytes: want at most %d, and the file has %d", length, mostHeaderBytes, size)
	}
	text := make([]byte, length)
	if _, err := r.ReadAt(text, int64(len(prefix))); err != nil {
		return nil, fail("", "reading %d bytes of header: %v", length, err)
	}
	tensors, err := parseHeader(text)
	if err != nil {
		return nil, fail("", "header: %v", err)
	}
	start := int64(len(prefix)) + int64(length)
	slices.SortFunc(tensors, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End), cmp.Compare(a.Name, b.Name))
	})
	at := int64(0)
	for i := range tensors {
		t := &tensors[i]
		need, err := byteSize(t)
		switch {
		case err != nil:
			return nil, fail(t.Name, "%v", err)
		case t.Begin < 0 || t.Begin > t.End:
			return nil, fail(t.Name, "data_offsets [%d, %d] do not begin before they end", t.Begin, t.End)
		case uint64(t.End-t.Begin) != need:
			return nil, fail(t.Name, "data_offsets [%d, %d] hold %d bytes, but shape %v of %s needs %d", t.Begin, t.End, t.End-t.Begin, t.Shape, t.Type, need)
		case t.End > size-start:
			return nil, fail(t.Name, "data_offsets [%d, %d] end behind the file: after the header it has %d bytes; was it cut short?", t.Begin, t.End, size-start)
		case t.Begin != at:
			return nil, fail(t.Name, "data_offsets [%d, %d] leave a hole or overlap: the tensor before ends at %d", t.Begin, t.End, at)
		}
		at = t.End
		t.Begin += start
		t.End += start
	}
	if at != size-start {
		return nil, fail("", "the tensors end at byte %d of the data, the file at %d", at, size-start)
	}
	return tensors, nil
}

// parseHeader decodes the JSON of a header. Names that occur twice are refused.
func parseHeader(text []byte) ([]stored, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var tensors []stored
	seen := make(map[string]bool)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok || seen[name] {
			return nil, fmt.Errorf("name %q occurs twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			var metadata map[string]string
			if err := d.Decode(&metadata); err != nil {
				return nil, fmt.Errorf("__metadata__: %w", err)
			}
			continue
		}
		var entry struct {
			DType   string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets *[]int64 `json:"data_offsets"`
		}
		if err := d.Decode(&entry); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if entry.Offsets == nil || len(*entry.Offsets) != 2 {
			return nil, fmt.Errorf("tensor %q: data_offsets: want [begin, end]", name)
		}
		tensors = append(tensors, stored{Name: name, Type: entry.DType, Shape: entry.Shape, Begin: (*entry.Offsets)[0], End: (*entry.Offsets)[1]})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	// Writers pad the header with spaces; anything else behind the object is no padding.
	if len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		return nil, errors.New("more than one JSON object")
	}
	return tensors, nil
}

// byteSize is shape times size of the type, or an error when no file can have it.
func byteSize(t *stored) (uint64, error) {
	width, ok := dtypeBits[t.Type]
	if !ok {
		return 0, fmt.Errorf("type %q is not one of safetensors'", t.Type)
	}
	n := width
	for _, d := range t.Shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative size", t.Shape)
		}
		high, low := bits.Mul64(n, uint64(d))
		if high != 0 || low > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v is larger than any file", t.Shape)
		}
		n = low
	}
	if n%8 != 0 {
		return 0, fmt.Errorf("shape %v of %s ends inside a byte", t.Shape, t.Type)
	}
	return n / 8, nil
}
