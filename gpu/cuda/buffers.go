//go:build linux && cgo

package cuda

import (
	"math"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// buffers are the activations of a step in device memory, allocated once; T is MaxBatchedTokens and R is MaxSeqs.
type buffers struct {
	x       ptr // (T, hidden) float32: residual stream
	h       ptr // (max(T, R), hidden): normalised input of a block
	y       ptr // (T, hidden): output of a block
	qkv     ptr // (T, (heads + 2 kvHeads) headDim)
	attn    ptr // (T, heads headDim)
	gateUp  ptr // (T, 2 intermediate)
	act     ptr // (T, intermediate)
	logits  ptr // (R, vocab) float32
	partial ptr // (items, kvHeads, tileRows, headDim + 2) float32
	ids     ptr // (R)
	sampled ptr // (R): id sampled last for each slot
	bad     ptr // one word
	step    ptr // the step structure
	result  ptr // pinned host memory: (R) ids and the number of their step
	cosines ptr // (MaxModelLen, half) float32
	sines   ptr // (MaxModelLen, half) float32
	half    int // pairs that are rotated in a head
}

func (b *buffers) allocate(m *machine, cfg *gpu.Config, l *layout) error {
	g, t, r := cfg.Geometry, int64(cfg.MaxBatchedTokens), int64(cfg.MaxSeqs)
	hidden, width := int64(g.Hidden), int64(g.Intermediate)
	for _, part := range []struct {
		what  string
		at    *ptr
		bytes int64
	}{
		{"the residual stream (--max-num-batched-tokens)", &b.x, 4 * t * hidden},
		{"activations (--max-num-batched-tokens)", &b.h, 2 * max(t, r) * hidden},
		{"activations (--max-num-batched-tokens)", &b.y, 2 * t * hidden},
		{"activations (--max-num-batched-tokens)", &b.qkv, 2 * t * int64(g.QSize()+2*g.KVSize())},
		{"activations (--max-num-batched-tokens)", &b.attn, 2 * t * int64(g.QSize())},
		{"activations (--max-num-batched-tokens)", &b.gateUp, 4 * t * width},
		{"activations (--max-num-batched-tokens)", &b.act, 2 * t * width},
		{"logits (--max-num-seqs)", &b.logits, 4 * r * int64(g.Vocab)},
		{"attention (--max-num-batched-tokens)", &b.partial, 4 * int64(l.itemsMax()) * int64(g.KVHeads) * tileRows * int64(g.HeadDim+2)},
		{"sampled ids", &b.ids, 4 * r},
		{"sampled ids", &b.sampled, 4 * r},
		{"a flag", &b.bad, 4},
		{"the step structure (--max-num-seqs, --max-model-len)", &b.step, 4 * int64(l.words)},
	} {
		var err error
		if *part.at, err = m.allocate(part.what, part.bytes); err != nil {
			return err
		}
	}
	return b.rotations(m, g.Rope, cfg.MaxModelLen)
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
