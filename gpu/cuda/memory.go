package cuda

import "github.com/fpmrun/fpmrun/gpu"

// workspaceSize is cuBLASLt's own memory in bytes, as its documentation advises for Hopper.
const workspaceSize = 32 << 20

// margin is left for what the libraries and the graphs take by themselves.
const margin = 512 << 20

// Memory is what an engine takes of a device, in bytes. All of it is allocated before the first step.
type Memory struct {
	Weights     int64
	Activations int64 // of a step of --max-num-batched-tokens, logits and attention's pieces included
	Workspace   int64 // of the matrix products
	Ceilings    int64 // of the products that are measured as one
	Margin      int64
	Block       int64 // one block of the KV pool, over all layers
}

// Fixed is everything but the KV pool.
func (m Memory) Fixed() int64 { return m.Weights + m.Activations + m.Workspace + m.Ceilings + m.Margin }

// Need is what an engine with a configuration takes on a device with so many multiprocessors. cfg.Blocks does not matter.
func Need(cfg *gpu.Config, multiprocessors int) Memory {
	g := cfg.Geometry
	l := newLayout(cfg, windows(g), attentionCut(g, multiprocessors))
	m := Memory{Weights: 2 * g.Parameters(), Workspace: workspaceSize, Margin: margin, Block: g.KVBytesPerToken(2, 1) * int64(cfg.BlockSize)}
	if cfg.Ceilings {
		m.Ceilings = ceilingBytes(productSide)
	}
	for _, p := range parts(cfg, &l, multiprocessors) {
		m.Activations += p.bytes
	}
	m.Activations += 2 * 4 * int64(cfg.MaxModelLen) * int64(g.Rope.Dim/2)
	return m
}

// productSide is the number of rows and columns of the matrices whose product is measured as a ceiling, and sweepBytes what is read for the other one.
const (
	productSide = 8192
	sweepBytes  = 8 << 30
)

// sweepBlocks is the number of blocks of a sweep for each multiprocessor.
const sweepBlocks = 2

// ceilingBytes is what the ceilings take: three matrices in bfloat16.
func ceilingBytes(side int64) int64 { return 3 * 2 * side * side }

// part is a piece of device memory that a step works on.
type part struct {
	what  string // and the flags that lower it
	bytes int64
}

// parts are the activations of a step, in the order of the members of buffers.
func parts(cfg *gpu.Config, l *layout, multiprocessors int) []part {
	g, t, r := cfg.Geometry, int64(l.tokens), int64(l.rows)
	hidden, width, q := int64(g.Hidden), int64(g.Intermediate), int64(g.QSize())
	sums, turns := fewBuffers(g, multiprocessors)
	const activations = "activations (--max-num-batched-tokens)"
	return []part{
		{"the residual stream (--max-num-batched-tokens)", 4 * t * hidden},
		{activations, 2 * max(t, r) * hidden},
		{activations, 2 * t * hidden},
		{activations, 2 * t * (q + 2*int64(g.KVSize()))},
		{activations, 2 * t * q},
		{activations, 4 * t * width},
		{activations, 2 * t * width},
		{"logits (--max-num-seqs)", 4 * r * int64(g.Vocab)},
		{"attention", 4 * int64(l.piecesMax()) * int64(g.KVHeads) * tileRows * int64(g.HeadDim+2)},
		{"attention", 4 * int64(l.piecesMax()) * int64(g.KVHeads)},
		{"sums of squares (--max-num-batched-tokens)", 4 * max(t, clusterTokens*(hidden+unitRows-1)/unitRows)},
		{"products of few tokens", sums},
		{"products of few tokens", turns},
		{"sampled ids", 4 * r},
		{"sampled ids", 4 * r},
		{"a flag", 4},
		{"the step structure (--max-num-seqs, --max-model-len)", 4 * int64(l.words)},
	}
}
