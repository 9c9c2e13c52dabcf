//go:build linux && cgo

package cuda

// #include "program.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// tensorMap describes a tensor to the copy engine, in a form that only the driver knows. A kernel takes it as a part of its arguments, at a multiple of
// tensorMapAlign bytes.
type tensorMap [128]byte

const tensorMapAlign = 64

// tensor is an array of bfloat16 of 2 to 5 dimensions in device memory, the fastest first, and the box of it that one copy brings to shared memory: lines of box[0] values, at
// most 64, one behind the other as all other dimensions count up, swizzled as wgmma takes them. What a box has outside of the tensor is 0.
type tensor struct {
	base    ptr
	sizes   []int
	strides []int // of all dimensions but the first, in bytes, multiples of 16
	box     []int
}

// tensorMap is the tensor's description.
func (m *machine) tensorMap(t tensor) (tensorMap, error) {
	var to tensorMap
	var sizes, strides [5]C.uint64_t
	var box [5]C.uint32_t
	for i, n := range t.sizes {
		sizes[i], box[i] = C.uint64_t(n), C.uint32_t(t.box[i])
	}
	for i, n := range t.strides {
		strides[i] = C.uint64_t(n)
	}
	if err := check(C.encode_tensor(m.c, (*C.char)(unsafe.Pointer(&to)), C.uint(len(t.sizes)), C.device_ptr(t.base), &sizes[0], &strides[0], &box[0])); err != nil {
		return to, fmt.Errorf("cuda: describe a tensor of %v with strides %v in boxes of %v: %w", t.sizes, t.strides, t.box, err)
	}
	return to, nil
}

// matrixMap describes rows of k values one behind the other, in boxes of 64 values of so many rows.
func (m *machine) matrixMap(base ptr, rows, k, boxRows int) (tensorMap, error) {
	return m.tensorMap(tensor{base: base, sizes: []int{k, rows}, strides: []int{2 * k}, box: []int{64, boxRows}})
}
