package model

import (
	"encoding/binary"
	"math"
	"testing"
)

// All 65,536 halves, by the definition of the format.
func TestFloat16(t *testing.T) {
	dst := make([]float32, 1)
	for h := range 1 << 16 {
		exponent, fraction := h>>10&31, float64(h&1023)
		want := math.Ldexp(1+fraction/1024, exponent-15)
		switch exponent {
		case 0:
			want = math.Ldexp(fraction, -24)
		case 31:
			want = math.Inf(1)
			if fraction != 0 {
				want = math.NaN()
			}
		}
		if h>>15 == 1 {
			want = -want
		}
		floats["F16"](dst, binary.LittleEndian.AppendUint16(nil, uint16(h)))
		got := float64(dst[0])
		if math.IsNaN(want) != math.IsNaN(got) || !math.IsNaN(want) && (got != want || math.Signbit(got) != math.Signbit(want)) {
			t.Fatalf("half %#04x = %v, want %v", h, got, want)
		}
	}
}

func TestFloatTypes(t *testing.T) {
	for _, c := range []struct {
		kind string
		src  []byte
		want float32
	}{
		{"BF16", []byte{0xC0, 0x3F}, 1.5},
		{"BF16", []byte{0x80, 0xFF}, float32(math.Inf(-1))},
		{"F32", []byte{0, 0, 0x20, 0xC0}, -2.5},
	} {
		dst := make([]float32, 1)
		floats[c.kind](dst, c.src)
		if dst[0] != c.want {
			t.Errorf("%s %x = %v, want %v", c.kind, c.src, dst[0], c.want)
		}
	}
}
