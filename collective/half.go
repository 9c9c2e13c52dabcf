package collective

import "math"

// Float16 holds the bits of an IEEE 754 binary16 value: 1 sign, 5 exponent and 10 fraction bits.
type Float16 uint16

// BFloat16 holds the bits of a bfloat16 value: the upper half of a float32.
type BFloat16 uint16

// Float32 is the value, exactly.
func (h Float16) Float32() float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exponent {
	case 0: // zero and the numbers below the normal ones: fraction * 2^-24
		return math.Float32frombits(math.Float32bits(float32(fraction)*(1.0/(1<<24))) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// ToFloat16 rounds to the nearest value, ties to even; values beyond the largest become infinite.
func ToFloat16(f float32) Float16 {
	bits := math.Float32bits(f)
	sign, rest := Float16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case rest > 0x7f800000:
		return sign | 0x7e00 | Float16(rest>>13&0x1ff) // not a number, quiet
	case rest >= 0x477ff000: // 65520 and more
		return sign | 0x7c00
	case rest < 0x38800000: // below 2^-14: a multiple of 2^-24, which adding 0.5 rounds to
		return sign | Float16(math.Float32bits(math.Float32frombits(rest)+0.5)-math.Float32bits(0.5))
	}
	return sign | Float16((rest-(127-15)<<23+0xfff+rest>>13&1)>>13)
}

// Float32 is the value, exactly.
func (b BFloat16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// ToBFloat16 rounds to the nearest value, ties to even.
func ToBFloat16(f float32) BFloat16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return BFloat16(bits>>16 | 0x40) // not a number, quiet
	}
	return BFloat16((bits + 0x7fff + bits>>16&1) >> 16)
}
