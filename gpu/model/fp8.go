package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
)

// scaleSuffix is what DeepSeek's checkpoints add to the name of an fp8 tensor for that of its scales.
const scaleSuffix = "_scale_inv"

// fp8Type is the type of weights that need scales: 1 sign, 4 exponent and 3 fraction bits, no infinities (Micikevicius et
// al., "FP8 Formats for Deep Learning", 2022).
const fp8Type = "F8_E4M3"

// float8 are the values of all fp8 codes.
var float8 = func() (values [256]float32) {
	for code := range values {
		exponent, fraction := code>>3&15, float64(code&7)
		v := math.Ldexp(1+fraction/8, exponent-7)
		switch {
		case code&0x7F == 0x7F:
			v = math.NaN()
		case exponent == 0:
			v = math.Ldexp(fraction, -9)
		}
		values[code] = float32(math.Copysign(v, float64(1-code>>7*2)))
	}
	return values
}()

// scales are the factors of an fp8 tensor, one for each block of rows and columns; the last ones may be cut short.
type scales struct {
	stored
	file  string
	block [2]int // rows and columns, from the config and not from the shapes
}

// findScales finds an fp8 tensor's scales, or says what is wrong with them.
func findScales(t Tensor, g *Geometry, have map[string]place) (*scales, string) {
	b := g.WeightBlock
	if b[0] == 0 {
		return nil, fmt.Sprintf("type %s needs the key quantization_config.weight_block_size, which config %s does not have", fp8Type, g.Name)
	}
	at, ok := have[t.Name+scaleSuffix]
	want := []int{(t.Rows() + b[0] - 1) / b[0], (t.Cols() + b[1] - 1) / b[1]}
	switch {
	case !ok:
		return nil, fmt.Sprintf("type %s needs a tensor %s of shape %v, and no file has it", fp8Type, t.Name+scaleSuffix, want)
	case at.Type != "F32" || !slices.Equal(at.Shape, want):
		return nil, fmt.Sprintf("its scales are %v of %s, want %v of F32: one for each block of weight_block_size %v", at.Shape, at.Type, want, b)
	}
	return &scales{at.stored, at.file, b}, ""
}

// apply multiplies values of one row, from column col on, by their scales.
func (s *scales) apply(dst []float32, data []byte, row, col int) {
	line := data[s.Begin:s.End][row/s.block[0]*s.Shape[1]*4:]
	for len(dst) > 0 {
		block := col / s.block[1]
		n := min(len(dst), (block+1)*s.block[1]-col)
		factor := math.Float32frombits(binary.LittleEndian.Uint32(line[4*block:]))
		for i := range dst[:n] {
			dst[i] *= factor
		}
		dst, col = dst[n:], col+n
	}
}

// scaleData is the mapped file of a tensor's scales; nil for a tensor without.
func (c *Checkpoint) scaleData(t *place) ([]byte, error) {
	if t.scales == nil {
		return nil, nil
	}
	data, err := c.files[t.scales.file].bytes()
	if err != nil {
		return nil, &WeightsError{File: filepath.Join(c.folder, t.scales.file), Tensor: t.Name + scaleSuffix, Reason: err.Error()}
	}
	return data, nil
}
