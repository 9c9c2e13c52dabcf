//go:build linux && cgo

package cuda

import "github.com/fpmrun/fpmrun/gpu/model"

// poolSeed selects the values that the KV pool holds before any key or value is written; the CPU engine has the same.
const poolSeed = 0x6b76

// poolBytes is the KV pool of one layer.
func (e *Engine) poolBytes() int64 {
	return 2 * 2 * int64(e.cfg.Blocks) * int64(e.cfg.BlockSize) * int64(e.cfg.Geometry.KVSize())
}

// makePool allocates the KV pool, layer by layer, and fills it with near-normal values of deviation 1, so that a prefix that was placed
// without being computed costs what a real one costs.
func (e *Engine) makePool() error {
	g := e.cfg.Geometry
	e.cache = make([]ptr, g.Layers)
	for i := range e.cache {
		var err error
		if e.cache[i], err = e.machine.allocate("the KV pool (--kv-blocks)", e.poolBytes()); err != nil {
			return err
		}
		b := builder{m: e.machine, functions: e.functions}
		kernel(&b, "pool", "KV pool", [3]int{spread(e.poolBytes() / 2), 1, 1}, 256, poolArgs{out: e.cache[i], seed: poolSeed, layer: int64(i), blocks: int64(e.cfg.Blocks),
			kvHeads: int32(g.KVHeads), allHeads: int32(g.KVHeads), per: int32(e.cfg.BlockSize * g.HeadDim), scale: model.NormalScale})
		if err := runOnce(&b); err != nil {
			return err
		}
	}
	return nil
}
