package collective

import (
	"fmt"
	"hash/fnv"
	"unsafe"
)

// Op is a reduction. Crosses the wire: append only.
type Op uint8

// The reductions. Each is commutative; the order in which the ranks' values are combined is fixed by the world and
// the length, so that a result has the same bits on every rank and in every run. Half-precision values are combined in
// float32 and rounded after each step. And, Or and Xor take integers only.
const (
	Sum Op = 1 + iota
	Prod
	Min
	Max
	And
	Or
	Xor
	customOp Op = 128 // and above: the lower bits are a hash of the operator's name
)

var opWords = [...]string{"", "sum", "product", "minimum", "maximum", "bitwise and", "bitwise or", "bitwise xor"}

// String is the reduction's word.
func (o Op) String() string {
	switch {
	case o >= customOp:
		return fmt.Sprintf("custom operator (hash %d)", o-customOp)
	case int(o) < len(opWords) && o > 0:
		return opWords[o]
	}
	return fmt.Sprintf("reduction %d", uint8(o))
}

// Operator is a reduction with a function of one's own. The function sets dst to dst combined with src, element by element; it
// must be commutative and associative up to rounding, and do the same on every rank. Ranks that pass operators of different names are
// told of the mismatch, with a chance of 127 in 128.
type Operator[T Number] struct {
	Name    string
	Combine func(dst, src []T)
}

func (o Operator[T]) op() Op {
	h := fnv.New32a()
	_, _ = h.Write([]byte(o.Name)) // a hash takes everything
	return customOp | Op(h.Sum32()&127)
}

// reduction is how an operation combines: one of the Ops, or a function.
type reduction[T Number] struct {
	op     Op
	custom func(dst, src []T)
}

// checked refuses an unknown reduction, and a bitwise one of numbers that are no integers.
func (r reduction[T]) check(name string) error {
	kind := kindFor[T]()
	switch {
	case r.op >= customOp && r.custom == nil:
		return invalid("%s by an operator without a function", name)
	case r.op < customOp && (r.op < Sum || r.op > Xor):
		return invalid("%s by %v", name, r.op)
	case r.op >= And && r.op <= Xor && kind.floating():
		return invalid("%s by %v of %v, want integers", name, r.op, kind)
	}
	return nil
}

// combine is dst = dst op src, element by element.
func (r reduction[T]) combine(dst, src []T) {
	if len(dst) == 0 {
		return
	}
	src = src[:len(dst)]
	var zero T
	switch any(zero).(type) {
	case Float16:
		if r.custom == nil {
			combineHalf(r.op, recast[Float16](dst), recast[Float16](src), Float16.Float32, ToFloat16)
			return
		}
	case BFloat16:
		if r.custom == nil {
			combineHalf(r.op, recast[BFloat16](dst), recast[BFloat16](src), BFloat16.Float32, ToBFloat16)
			return
		}
	}
	switch r.op {
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
	case And, Or, Xor:
		combineBits(r.op, bytesOf(dst), bytesOf(src))
	default:
		r.custom(dst, src)
	}
}

func combineHalf[H Float16 | BFloat16](op Op, dst, src []H, widen func(H) float32, narrow func(float32) H) {
	for i, v := range src {
		a, b := widen(dst[i]), widen(v)
		switch op {
		case Sum:
			a += b
		case Prod:
			a *= b
		case Min:
			a = min(a, b)
		case Max:
			a = max(a, b)
		}
		dst[i] = narrow(a)
	}
}

func combineBits(op Op, dst, src []byte) {
	for i, v := range src {
		switch op {
		case And:
			dst[i] &= v
		case Or:
			dst[i] |= v
		case Xor:
			dst[i] ^= v
		}
	}
}

// recast views a slice as one of another type of the same size.
func recast[To, From Number](s []From) []To {
	return unsafe.Slice((*To)(unsafe.Pointer(&s[0])), len(s))
}
