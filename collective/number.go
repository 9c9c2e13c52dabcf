package collective

import (
	"fmt"
	"unsafe"
)

// Number is what typed operations and reductions work on.
type Number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 | Float16 | BFloat16
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
	kindFloat16
	kindBFloat16
)

var kindNames = [...]string{"bytes", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
	"float16", "bfloat16"}

// String is the element's type.
func (k elemKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("element kind %d", uint8(k))
}

// floating reports whether the bits of the kind's values mean something only together.
func (k elemKind) floating() bool { return k >= kindFloat32 }

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
	case Float16:
		return kindFloat16
	case BFloat16:
		return kindBFloat16
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
