package cpu

import (
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// cacheSeed selects the values that a pool holds before any key or value is written.
const cacheSeed = 0x6b76

// cache is one worker's paged keys and values.
type cache struct {
	data      []float32 // (Layers, 2: keys and values, Blocks, kvHeads, BlockSize, HeadDim)
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
	c := &cache{blocks: cfg.Blocks, heads: s.kvHeads, blockSize: cfg.BlockSize, dim: g.HeadDim}
	per := c.blockSize * c.dim
	c.data = make([]float32, g.Layers*2*c.blocks*c.heads*per)
	at := 0
	for outer := range g.Layers * 2 * c.blocks {
		first := (uint64(outer)*uint64(g.KVHeads) + uint64(s.firstKVHead)) * uint64(per)
		model.FillNormal(c.data[at:at+c.heads*per], cacheSeed, first)
		at += c.heads * per
	}
	return c
}

// page is where a block's keys or values (kind 0 or 1) of one head begin: (BlockSize, HeadDim).
func (c *cache) page(layer, kind int, block int32, head int) []float32 {
	per := c.blockSize * c.dim
	at := (((layer*2+kind)*c.blocks+int(block))*c.heads + head) * per
	return c.data[at : at+per]
}
