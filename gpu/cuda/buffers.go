//go:build linux && cgo

package cuda

import (
	"math"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// buffers are the activations of a step in device memory, allocated once; T and R are the most tokens and rows of
// a step, padding included.
type buffers struct {
	x       ptr // (T, hidden) float32: residual stream
	h       ptr // (max(T, R), hidden): normalised input of a block
	y       ptr // (T, hidden): output of a block
	qkv     ptr // (T, (heads + 2 kvHeads) headDim)
	attn    ptr // (T, heads headDim)
	gateUp  ptr // (T, 2 intermediate)
	act     ptr // (T, intermediate)
	logits  ptr // (R, vocab) float32
	partial ptr // (pieces, kvHeads, tileRows, headDim + 2) float32
	joined  ptr // (pieces, kvHeads), zero between the kernels
	squares ptr // (tokens, parts): sums of squares of parts of the residual stream
	sums    ptr // of products of few tokens whose columns are split; all bits are 1 between the kernels
	turns   ptr // one word: the barrier between products of few tokens, see chain.cu
	ids     ptr // (R)
	sampled ptr // (R): id sampled last for each slot
	bad     ptr // one word
	step    ptr // the step structure
	result  ptr // pinned host memory, for even and odd steps: (2, R + 1) ids and the number of their step
	cosines ptr // (MaxModelLen, half) float32
	sines   ptr // (MaxModelLen, half) float32
	half    int // pairs that are rotated in a head
}

func (b *buffers) allocate(m *machine, cfg *gpu.Config, l *layout, multiprocessors int) error {
	members := []*ptr{&b.x, &b.h, &b.y, &b.qkv, &b.attn, &b.gateUp, &b.act, &b.logits, &b.partial, &b.joined, &b.squares, &b.sums, &b.turns, &b.ids, &b.sampled, &b.bad, &b.step}
	for i, p := range parts(cfg, l, multiprocessors) {
		var err error
		if *members[i], err = m.allocate(p.what, p.bytes); err != nil {
			return err
		}
		if value, fills := map[*ptr]byte{&b.joined: 0, &b.turns: 0, &b.sums: 0xff}[members[i]]; fills {
			if err := m.fill(*members[i], value, p.bytes); err != nil {
				return err
			}
		}
	}
	return b.rotations(m, cfg.Geometry.Rope, cfg.MaxModelLen)
}

// rotations makes the cosines and sines of all positions. Angles are computed in float64 and only their cosine and sine are rounded.
func (b *buffers) rotations(m *machine, rope model.Rope, positions int) error {
	freqs, factor := rope.ForLength(positions).Frequencies(), rope.AttentionFactor()
	b.half = len(freqs)
	table := [2][]float32{make([]float32, positions*b.half), make([]float32, positions*b.half)}
	for p := range positions {
		for i, f := range freqs {
			sin, cos := math.Sincos(float64(p) * f)
			table[0][p*b.half+i], table[1][p*b.half+i] = float32(cos*factor), float32(sin*factor)
		}
	}
	for i, at := range []*ptr{&b.cosines, &b.sines} {
		var err error
		bytes := 4 * int64(len(table[i]))
		if *at, err = m.allocate("rotations (--max-model-len)", bytes); err != nil {
			return err
		}
		if err := m.copyIn(*at, unsafe.Pointer(&table[i][0]), bytes); err != nil {
			return err
		}
	}
	return nil
}
