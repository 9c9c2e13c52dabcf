package gpu

import (
	"time"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// Device is the two ceilings that bound a step and the memory of a device.
type Device struct {
	ReadRate float64 // bytes per second of a read-only sweep
	MathRate float64 // matrix operations per second, a multiply and an add counting as two
	Memory   int64   // bytes
}

// H200 is one NVIDIA H200 with bfloat16 matrices, ceilings as measured.
var H200 = Device{ReadRate: 4650e9, MathRate: 787e12, Memory: 141 << 30}

// Roofline computes the floor of steps of one model on one device: the sum over a step's dependent operations of the
// longer of reading their operands and doing their arithmetic. Counted are the matrices of every layer, attention
// over the KV cache, and the LM head for the last token of each row. Not counted are the embedding, norms, rotations,
// activations, KV writes, sampling and launches.
type Roofline struct {
	device     Device
	tp         float64
	valueBytes float64
	dense      float64 // elements of matrices that every token passes
	head       float64 // elements of the LM head
	expert     float64 // elements of one routed expert
	sparse     int     // layers with routed experts
	experts    int
	topK       int
	windows    []int   // keys a query of each layer sees; 0 is all
	kvBytes    float64 // bytes that one token has in one layer's cache
	pairWork   float64 // operations for one query-key pair in one layer
	between    float64 // bytes of a token that are read and written between products, over all layers
}

// NewRoofline prepares the floor of one of tp ranks with weights and cache values of valueBytes bytes.
func NewRoofline(g *model.Geometry, d Device, tp, valueBytes int) *Roofline {
	r := &Roofline{device: d, tp: float64(tp), valueBytes: float64(valueBytes), head: float64(g.Vocab) * float64(g.Hidden), windows: g.Windows}
	heads := float64(g.Heads)
	r.pairWork = 4 * heads * float64(g.HeadDim)
	if g.MLA != nil {
		r.pairWork = 2 * heads * float64(g.HeadDim+g.MLA.VDim)
	}
	r.kvBytes = float64(g.KVBytesPerToken(valueBytes, tp)) / float64(g.Layers)
	if g.Experts != nil {
		r.experts, r.topK = g.Experts.Count, g.Experts.TopK
		r.expert = 3 * float64(g.Hidden) * float64(g.Experts.Intermediate)
		for layer := range g.Layers {
			if g.IsSparse(layer) {
				r.sparse++
			}
		}
	}
	all := 0.0
	for t := range g.Tensors() {
		if len(t.Shape) == 2 {
			all += float64(t.Elements())
		}
	}
	tables := r.head // the embedding, which is only looked up
	if !g.Tied {
		tables += r.head
	}
	r.dense = all - tables - float64(r.sparse)*float64(r.experts)*r.expert
	r.between = r.valueBytes * float64(g.Layers) * float64(8*g.Hidden+2*(g.QSize()+2*g.KVSize())+3*g.Intermediate)
	return r
}

// matrix is the time of a product with a matrix of the given elements for the given number of rows.
func (r *Roofline) matrix(elements, rows float64) float64 {
	return elements / r.tp * max(r.valueBytes/r.device.ReadRate, 2*rows/r.device.MathRate)
}

// Floor is the least time of one step.
func (r *Roofline) Floor(step *Step) time.Duration {
	tokens := float64(step.Tokens())
	seconds := r.matrix(r.dense, tokens) + r.matrix(r.head, float64(len(step.Rows)))
	if r.sparse > 0 {
		routed := tokens * float64(r.topK)
		touched := min(float64(r.experts), routed)
		seconds += float64(r.sparse) * r.matrix(touched*r.expert, routed/touched)
	}
	return time.Duration((seconds + r.attention(step, 1, 1)) * 1e9)
}

// attention is the time in seconds of a step's attention at parts of the ceilings.
func (r *Roofline) attention(step *Step, read, math float64) float64 {
	seconds := 0.0
	for _, window := range r.windows {
		keys, pairs := 0.0, 0.0
		for i := range step.Rows {
			k, p := seen(step.Rows[i].Computed, step.Rows[i].New(), window)
			keys, pairs = keys+k, pairs+p
		}
		// The cache bytes are this rank's already; the heads are shared out.
		seconds += max(keys*r.kvBytes/(read*r.device.ReadRate), pairs*r.pairWork/r.tp/(math*r.device.MathRate))
	}
	return seconds
}

// seen counts the keys that a row reads and its query-key pairs under a causal mask and a window of keys; 0 is no window.
func seen(computed, fresh, window int) (keys, pairs float64) {
	total := computed + fresh
	if window == 0 || total <= window {
		return float64(total), float64(fresh)*float64(computed) + float64(fresh)*float64(fresh+1)/2
	}
	first := max(0, computed+1-window)
	for q := computed; q < total; q++ {
		pairs += float64(min(q+1, window))
	}
	return float64(total - first), pairs
}
