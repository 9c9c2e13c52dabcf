package model

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Constants of the random weights. A kernel that repeats the steps that [Random] lists gets the same bits.
const (
	golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio: SplitMix64's step
	mixA   = 0xBF58476D1CE4E5B9 // SplitMix64's multipliers
	mixB   = 0x94D049BB133111EB

	laneMean  = 2 * 0xFFFF  // mean of the sum of four 16-bit numbers
	laneSigma = 37837.22766 // its standard deviation, sqrt(4 * (65536^2 - 1) / 12)
)

// random is a Source of seeded weights.
type random struct {
	seed    uint64
	scale   float32
	tensors map[string]Tensor
}

// Random returns seeded weights for a geometry. Element i of a tensor (row-major in the unsharded tensor) is
// a pure function of the weight seed, the tensor's Hugging Face name and i:
//
//	s = first 8 bytes, little-endian, of SHA-256(weight seed as 8 bytes little-endian, name)
//	z = s + (i+1) * 0x9E3779B97F4A7C15                       (SplitMix64: Steele, Lea, Flood 2014)
//	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
//	z = (z ^ z>>27) * 0x94D049BB133111EB
//	z = z ^ z>>31
//	n = sum of z's four 16-bit parts - 131070                 (near normal, mean 0, deviation 37837.2)
//	x = float32(n) * float32(initializer_range / 37837.22766) (one float32 multiplication)
//	x = 1 + x in the weights of norms (one float32 addition)
//	w = x rounded to bfloat16, ties to even
//
// Norm weights so scatter around 1 as the others do around 0: equal ones would hide a norm applied to the
// wrong values or in the wrong order.
func Random(seed uint64, g *Geometry) Source {
	r := &random{seed: seed, scale: float32(g.InitRange / laneSigma), tensors: make(map[string]Tensor)}
	for t := range g.Tensors() {
		r.tensors[t.Name] = t
	}
	return r
}

// Generator is a Source whose tensors a device can make itself.
type Generator interface {
	// Constants are what the steps that [Random] lists need for a tensor: s, the factor on n, and what is added to x.
	Constants(name string) (seed uint64, scale, offset float32)
}

// Constants: see Generator.
func (r *random) Constants(name string) (seed uint64, scale, offset float32) {
	if isNorm(name) {
		offset = 1
	}
	return tensorSeed(r.seed, name), r.scale, offset
}

func (r *random) Kind() string { return "random" }
func (r *random) Close() error { return nil }

// Fill: see Source. Large rectangles are made by several goroutines.
func (r *random) Fill(name string, rect Rect, dst []float32) error {
	t, ok := r.tensors[name]
	if !ok {
		return fmt.Errorf("model: random weights: the model has no tensor %s", name)
	}
	if err := checkRect(t, rect, len(dst)); err != nil {
		return err
	}
	seed, scale, offset := r.Constants(name)
	eachRow(rect.Rows, rect.Cols, func(row int) {
		first := uint64(rect.Row+row)*uint64(t.Cols()) + uint64(rect.Col)
		fillRandom(dst[row*rect.Cols:(row+1)*rect.Cols], seed, first, scale, offset)
	})
	return nil
}

// isNorm reports whether a tensor is the weight of a norm.
func isNorm(name string) bool { return strings.HasSuffix(name, "norm.weight") }

// tensorSeed is the 64-bit seed of one tensor.
func tensorSeed(seed uint64, name string) uint64 {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), name...))
	return binary.LittleEndian.Uint64(sum[:])
}

// fillRandom writes elements first, first+1, ... of a tensor.
func fillRandom(dst []float32, seed, first uint64, scale, offset float32) {
	z := seed + (first+1)*golden
	for i := range dst {
		dst[i] = randomValue(mix(z), scale, offset)
		z += golden
	}
}

// mix is SplitMix64's finaliser.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * mixA
	z = (z ^ z>>27) * mixB
	return z ^ z>>31
}

// randomValue turns 64 random bits into a weight. The conversions to float32 forbid fused arithmetic.
func randomValue(z uint64, scale, offset float32) float32 {
	pairs := z&0x0000FFFF0000FFFF + z>>16&0x0000FFFF0000FFFF
	n := int32(uint32(pairs)+uint32(pairs>>32)) - laneMean
	x := float32(float32(n) * scale)
	return bfloat16(float32(offset + x))
}

// bfloat16 rounds a finite number to bfloat16, ties to even.
func bfloat16(x float32) float32 {
	b := math.Float32bits(x)
	b += 0x7FFF + b>>16&1
	return math.Float32frombits(b &^ 0xFFFF)
}

// FillNormal writes elements first, first+1, ... of a seeded stream of near-normal values with deviation 1,
// made by the steps that [Random] lists with seed as s and an initializer_range of 1.
func FillNormal(dst []float32, seed, first uint64) { fillRandom(dst, seed, first, NormalScale, 0) }

// NormalScale is the factor on n in FillNormal's values.
const NormalScale float32 = 1 / laneSigma
