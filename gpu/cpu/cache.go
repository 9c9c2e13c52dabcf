package cpu

import (
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// cacheSeed selects the values that a pool holds before any key or value is written.
const cacheSeed = 0x6b76

// cache is one worker's paged keys and values.
type cache struct {
	data      []float32 // (Layers, kinds, Blocks, heads, BlockSize, dim)
	kinds     int       // 2: keys and values; 1: a compressed vector that is both
	blocks    int
	heads     int
	blockSize int
	dim       int
}

// newCache makes a pool filled with near-normal values of deviation 1, so that a prefix that was placed
// without being computed costs what a real one costs. The values depend on the unsharded place, so that
// every split of a model sees the same ones.
func newCache(cfg *gpu.Config, s shard) *cache {
	g := cfg.Geometry
	c := &cache{kinds: 2, blocks: cfg.Blocks, heads: s.kvHeads, blockSize: cfg.BlockSize, dim: g.HeadDim}
	all := g.KVHeads
	if g.MLA != nil {
		c.kinds, c.dim, all = 1, g.MLA.KVRank+g.MLA.RopeDim, 1
	}
	per := c.blockSize * c.dim
	c.data = make([]float32, g.Layers*c.kinds*c.blocks*c.heads*per)
	at := 0
	for outer := range g.Layers * c.kinds * c.blocks {
		first := (uint64(outer)*uint64(all) + uint64(s.firstKVHead)) * uint64(per)
		model.FillNormal(c.data[at:at+c.heads*per], cacheSeed, first)
		at += c.heads * per
	}
	return c
}

// page is where a block's keys or values (kind 0 or 1) of one head begin: (BlockSize, dim).
func (c *cache) page(layer, kind int, block int32, head int) []float32 {
	per := c.blockSize * c.dim
	at := (((layer*c.kinds+min(kind, c.kinds-1))*c.blocks+int(block))*c.heads + head) * per
	return c.data[at : at+per]
}

// slot is where the key or value of one position of a sequence is.
func (c *cache) slot(layer, kind int, blocks []int32, head, position int) []float32 {
	in := position % c.blockSize * c.dim
	return c.page(layer, kind, blocks[position/c.blockSize], head)[in : in+c.dim]
}
