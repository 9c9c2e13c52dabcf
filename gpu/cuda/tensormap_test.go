//go:build linux && cgo

package cuda

import "testing"

// The driver describes tensors of 2 to 5 dimensions, and refuses what the copy engine cannot bring.
func TestTensorMap(t *testing.T) {
	needGPU(t)
	m, err := openMachine(0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}()
	at, err := m.allocate("a tensor", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := m.matrixMap(at, 100, 192, 128); err != nil || v == (tensorMap{}) {
		t.Error(v, err)
	}
	for _, c := range []struct {
		what string
		t    tensor
		good bool
	}{
		{"pairs of rows", tensor{base: at, sizes: []int{192, 8, 2, 5}, strides: []int{384, 40 * 384, 8 * 384}, box: []int{64, 8, 2, 5}}, true},
		{"heads", tensor{base: at, sizes: []int{64, 8, 2, 4, 3}, strides: []int{128, 32 * 128, 8 * 128, 64 * 128}, box: []int{64, 8, 2, 2, 1}}, true},
		{"a box outside of the tensor", tensor{base: at, sizes: []int{64, 5}, strides: []int{128}, box: []int{64, 256}}, true},
		{"lines that are too long for the swizzle", tensor{base: at, sizes: []int{192, 100}, strides: []int{384}, box: []int{128, 8}}, false},
		{"rows at odd places", tensor{base: at, sizes: []int{60, 100}, strides: []int{120}, box: []int{64, 8}}, false},
		{"too many rows", tensor{base: at, sizes: []int{64, 1000}, strides: []int{128}, box: []int{64, 512}}, false},
	} {
		if v, err := m.tensorMap(c.t); (err == nil) != c.good || c.good && v == (tensorMap{}) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
