package collective

import (
	"fmt"
	"unsafe"
)

// Number is what typed operations and reductions work on.
type Number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// elemKind names a Number in headers. Crosses the wire: append only.
type elemKind uint8

const (
	kindBytes elemKind = iota
	kindInt8
	kindInt16
	kindInt32
	kindInt64
	kindUint8
	kindUint16
	kindUint32
	kindUint64
	kindFloat32
	kindFloat64
)

var kindNames = [...]string{"bytes", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"}

// String is the element's Go type.
func (k elemKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("element kind %d", uint8(k))
}

func kindFor[T Number]() elemKind {
	var zero T
	switch any(zero).(type) {
	case int8:
		return kindInt8
	case int16:
		return kindInt16
	case int32:
		return kindInt32
	case int64:
		return kindInt64
	case uint8:
		return kindUint8
	case uint16:
		return kindUint16
	case uint32:
		return kindUint32
	case uint64:
		return kindUint64
	case float32:
		return kindFloat32
	}
	return kindFloat64
}

// bytesOf is the memory of a slice. Elements travel as they lie in memory, little-endian on every supported machine.
func bytesOf[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// Op is a reduction. Crosses the wire: append only.
type Op uint8

// The reductions. Each is commutative; the order in which the ranks' values are combined is fixed by the world size and
// the length, so that a result has the same bits on every rank and in every run.
const (
	Sum Op = 1 + iota
	Prod
	Min
	Max
)

var opWords = [...]string{"", "sum", "product", "minimum", "maximum"}

// String is the reduction's word.
func (o Op) String() string {
	if int(o) < len(opWords) && o > 0 {
		return opWords[o]
	}
	return fmt.Sprintf("reduction %d", uint8(o))
}

// combine is dst = dst op src, element by element.
func combine[T Number](op Op, dst, src []T) {
	src = src[:len(dst)]
	switch op {
	case Sum:
		for i, v := range src {
			dst[i] += v
		}
	case Prod:
		for i, v := range src {
			dst[i] *= v
		}
	case Min:
		for i, v := range src {
			dst[i] = min(dst[i], v)
		}
	case Max:
		for i, v := range src {
			dst[i] = max(dst[i], v)
		}
	}
}
