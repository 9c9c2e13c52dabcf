//go:build linux && cgo

package cuda

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// layer is the weights of a decoder layer in device memory, bfloat16. Matrices are (out, in) row by row; a missing vector is 0.
type layer struct {
	attnNorm, mlpNorm  ptr // (hidden)
	qkv, qkvBias       ptr // ((heads + 2 kvHeads) headDim, hidden): query, key, value rows
	qNorm, kNorm       ptr // (headDim)
	out, outBias       ptr // (hidden, heads headDim)
	gateUp, gateUpBias ptr // (2 intermediate, hidden): gate rows, then up rows
	down, downBias     ptr // (hidden, intermediate)
}

// weights is a model in device memory.
type weights struct {
	embed, head, norm ptr // (vocab, hidden) twice, the same memory when tied; (hidden)
	layers            []layer
	bytes             int64
}

// alike are the matrices of all layers that are what one of them is, or it alone.
func (w *weights) alike(matrix ptr) []ptr {
	for _, of := range []func(l *layer) ptr{
		func(l *layer) ptr { return l.qkv }, func(l *layer) ptr { return l.out }, func(l *layer) ptr { return l.gateUp }, func(l *layer) ptr { return l.down },
	} {
		var list []ptr
		for i := range w.layers {
			list = append(list, of(&w.layers[i]))
		}
		if slices.Contains(list, matrix) {
			return list
		}
	}
	return []ptr{matrix}
}

// loader puts tensors into device memory and keeps the first error.
type loader struct {
	m         *machine
	functions functions
	src       model.Source
	tensors   map[string]model.Tensor
	bytes     int64
	staging   []float32
	rounded   []uint16
	err       error
}

// stagingValues is how many values of a tensor are converted at a time.
const stagingValues = 8 << 20

// tensor is one tensor, or several with the same number of columns one below the other.
func (l *loader) tensor(names ...string) ptr {
	if l.err != nil {
		return 0
	}
	rows, cols := 0, 0
	for _, name := range names {
		rows, cols = rows+l.tensors[name].Rows(), l.tensors[name].Cols()
	}
	bytes := 2 * int64(rows) * int64(cols)
	at, err := l.m.allocate("weights", bytes)
	if err != nil {
		l.err = err
		return 0
	}
	l.bytes += bytes
	to := at
	for _, name := range names {
		t := l.tensors[name]
		if g, ok := l.src.(model.Generator); ok {
			l.make(g, t, to)
		} else {
			l.copy(t, to)
		}
		to += ptr(2 * t.Elements())
	}
	return at
}

// make lets the device make a tensor.
func (l *loader) make(g model.Generator, t model.Tensor, to ptr) {
	seed, scale, offset := g.Constants(t.Name)
	b := builder{m: l.m, functions: l.functions}
	kernel(&b, "weights", t.Name, [3]int{spread(t.Elements()), 1, 1}, 256, weightsArgs{out: to, seed: seed, rows: int64(t.Rows()), columns: int64(t.Cols()), width: int64(t.Cols()), scale: scale, offset: offset})
	if err := runOnce(&b); err != nil && l.err == nil {
		l.err = err
	}
}

// spread is a number of blocks of 256 threads for an element-wise kernel.
func spread(elements int64) int { return int(min(max((elements+255)/256, 1), 132*16)) }

// runOnce runs a program that is needed only once.
func runOnce(b *builder) error {
	p, err := b.build()
	if err != nil {
		return err
	}
	defer p.free()
	return p.run(b.m)
}

// copy brings a tensor from its source.
func (l *loader) copy(t model.Tensor, to ptr) {
	if l.staging == nil {
		l.staging, l.rounded = make([]float32, stagingValues), make([]uint16, stagingValues)
	}
	step := max(1, stagingValues/t.Cols())
	for row := 0; row < t.Rows() && l.err == nil; row += step {
		r := model.Rect{Row: row, Rows: min(step, t.Rows()-row), Cols: t.Cols()}
		n := r.Rows * r.Cols
		if n > len(l.staging) {
			l.staging, l.rounded = make([]float32, n), make([]uint16, n)
		}
		if l.err = l.src.Fill(t.Name, r, l.staging[:n]); l.err != nil {
			return
		}
		for i, v := range l.staging[:n] {
			l.rounded[i] = toBfloat16(v)
		}
		l.err = l.m.copyIn(to+ptr(2*row*t.Cols()), unsafe.Pointer(&l.rounded[0]), 2*int64(n))
	}
}

// toBfloat16 rounds to nearest, ties to even.
func toBfloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	if bits&0x7fffffff > 0x7f800000 { // not a number stays one
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// loadWeights brings a model to the device.
func loadWeights(m *machine, f functions, g *model.Geometry, src model.Source) (*weights, error) {
	l := &loader{m: m, functions: f, src: src, tensors: map[string]model.Tensor{}}
	for t := range g.Tensors() {
		l.tensors[t.Name] = t
	}
	optional := func(is bool, names ...string) ptr {
		if !is {
			return 0
		}
		return l.tensor(names...)
	}
	w := &weights{embed: l.tensor(model.EmbedName), norm: l.tensor(model.NormName), layers: make([]layer, g.Layers)}
	for i := range w.layers {
		p := model.LayerPrefix(i)
		a, mlp := p+"self_attn.", p+"mlp."
		w.layers[i] = layer{
			attnNorm: l.tensor(p + "input_layernorm.weight"), mlpNorm: l.tensor(p + "post_attention_layernorm.weight"),
			qkv:     l.tensor(a+"q_proj.weight", a+"k_proj.weight", a+"v_proj.weight"),
			qkvBias: optional(g.QKVBias, a+"q_proj.bias", a+"k_proj.bias", a+"v_proj.bias"),
			qNorm:   optional(g.QKNorm, a+"q_norm.weight"), kNorm: optional(g.QKNorm, a+"k_norm.weight"),
			out: l.tensor(a + "o_proj.weight"), outBias: optional(g.OutBias, a+"o_proj.bias"),
			gateUp:     l.tensor(mlp+"gate_proj.weight", mlp+"up_proj.weight"),
			gateUpBias: optional(g.MLPBias, mlp+"gate_proj.bias", mlp+"up_proj.bias"),
			down:       l.tensor(mlp + "down_proj.weight"), downBias: optional(g.MLPBias, mlp+"down_proj.bias"),
		}
	}
	if w.head = w.embed; !g.Tied {
		w.head = l.tensor(model.HeadName)
	}
	w.bytes = l.bytes
	if l.err != nil {
		return nil, fmt.Errorf("cuda: weights: %w", l.err)
	}
	return w, m.synchronize()
}
