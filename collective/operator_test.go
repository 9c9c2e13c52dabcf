package collective

import (
	"errors"
	"math"
	"testing"
)

// Every half-precision value survives the way to float32 and back.
func TestHalfRoundTrip(t *testing.T) {
	for bits := range 1 << 16 {
		h, b := Float16(bits), BFloat16(bits)
		if f := h.Float32(); f == f && ToFloat16(f) != h {
			t.Fatalf("float16 %#04x is %v, which rounds to %#04x", bits, f, ToFloat16(f))
		}
		if f := b.Float32(); f == f && ToBFloat16(f) != b {
			t.Fatalf("bfloat16 %#04x is %v, which rounds to %#04x", bits, f, ToBFloat16(f))
		}
	}
	if f := ToFloat16(float32(math.NaN())).Float32(); f == f {
		t.Error("float16 lost a NaN")
	}
	if f := ToBFloat16(float32(math.NaN())).Float32(); f == f {
		t.Error("bfloat16 lost a NaN")
	}
}

func TestHalfRounding(t *testing.T) {
	for _, c := range []struct {
		value float32
		want  Float16
	}{
		{1, 0x3c00}, {-2, 0xc000}, {65504, 0x7bff}, {65519.996, 0x7bff}, {65520, 0x7c00}, {float32(math.Inf(-1)), 0xfc00},
		{1 + 1.0/2048, 0x3c00}, {1 + 3.0/2048, 0x3c02}, // halfway: to even
		{1.0 / (1 << 24), 1}, {1.0 / (1 << 25), 0}, {3.0 / (1 << 25), 2}, {6.103515625e-05, 0x0400},
	} {
		if got := ToFloat16(c.value); got != c.want {
			t.Errorf("%v is %#04x, want %#04x", c.value, got, c.want)
		}
	}
	for _, c := range []struct {
		value float32
		want  BFloat16
	}{{1, 0x3f80}, {1 + 1.0/256, 0x3f80}, {1 + 3.0/256, 0x3f82}, {math.MaxFloat32, 0x7f80}} {
		if got := ToBFloat16(c.value); got != c.want {
			t.Errorf("bfloat16 of %v is %#04x, want %#04x", c.value, got, c.want)
		}
	}
}

func TestOperators(t *testing.T) {
	everywhere(t, func(t *testing.T, comms []*Comm) {
		n := len(comms)
		each(comms, func(rank int, c *Comm) {
			halves := []Float16{ToFloat16(float32(rank)), ToFloat16(0.5)}
			if err := AllReduceInto(t.Context(), c, halves, halves, Sum); err != nil ||
				halves[0].Float32() != float32(n*(n-1)/2) || halves[1].Float32() != float32(n)/2 {
				t.Errorf("float16 sum %v %v (%v)", halves[0].Float32(), halves[1].Float32(), err)
			}
			brains := []BFloat16{ToBFloat16(float32(rank)), ToBFloat16(2)}
			if err := AllReduceInto(t.Context(), c, brains, brains, Max); err != nil || brains[0].Float32() != float32(n-1) {
				t.Errorf("bfloat16 maximum %v (%v)", brains[0].Float32(), err)
			}
			sets, err := AllReduce(t.Context(), c, []uint16{1 << rank, ^uint16(0), 1}, Or)
			if err != nil || sets[0] != 1<<n-1 {
				t.Errorf("or %b (%v)", sets[0], err)
			}
			if sets, err = AllReduce(t.Context(), c, []uint16{^uint16(1 << rank)}, And); err != nil || sets[0] != ^uint16(1<<n-1) {
				t.Errorf("and %b (%v)", sets[0], err)
			}
			if sets, err = AllReduce(t.Context(), c, []uint16{1}, Xor); err != nil || sets[0] != uint16(n%2) {
				t.Errorf("xor %d (%v)", sets[0], err)
			}
			product, err := Reduce(t.Context(), c, 0, []int64{int64(rank + 1)}, Prod)
			factorial := int64(1)
			for i := range n {
				factorial *= int64(i + 1)
			}
			if err != nil || rank == 0 && product[0] != factorial {
				t.Errorf("product %v (%v)", product, err)
			}
			gcd := Operator[int32]{"gcd", func(dst, src []int32) {
				for i, b := range src {
					a := dst[i]
					for b != 0 {
						a, b = b, a%b
					}
					dst[i] = a
				}
			}}
			data := []int32{int32(6 * (rank + 1)), 35}
			if err := AllReduceFunc(t.Context(), c, data, data, gcd); err != nil || data[0] != 6 || data[1] != 35 {
				t.Errorf("gcd %v (%v)", data, err)
			}
			if err := ReduceFunc(t.Context(), c, 0, data, data, gcd); err != nil {
				t.Error(err)
			}
			part := make([]int32, 1)
			all := make([]int32, n)
			for i := range all {
				all[i] = int32(10 * (i + 1))
			}
			if err := ReduceScatterFunc(t.Context(), c, part, all, gcd); err != nil || part[0] != int32(10*(rank+1)) {
				t.Errorf("gcd scattered %v (%v)", part, err)
			}
			if _, err := AllReduce(t.Context(), c, []float64{1}, Xor); !errors.Is(err, ErrInvalid) {
				t.Errorf("xor of float64: %v", err)
			}
			if err := AllReduceFunc(t.Context(), c, data, data, Operator[int32]{Name: "none"}); !errors.Is(err, ErrInvalid) {
				t.Errorf("operator without function: %v", err)
			}
		})
	})
}
