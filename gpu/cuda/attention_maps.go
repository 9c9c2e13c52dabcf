//go:build linux && cgo

package cuda

// attentionMaps are the tensors that attention_hopper.cu copies from.
type attentionMaps struct {
	caches  []tensorMap // of each layer
	queries tensorMap
}

// describeAttention describes the KV pool and the queries of a step, where there is a kernel for it.
func (e *Engine) describeAttention() error {
	g := e.cfg.Geometry
	if !e.device.hopper() || !tensorHeads(g.HeadDim) {
		return nil
	}
	rows := 2 * e.cfg.Blocks * g.KVHeads * e.cfg.BlockSize
	for _, cache := range e.cache {
		described, err := e.machine.cacheMap(cache, rows, g.HeadDim)
		if err != nil {
			return err
		}
		e.attends.caches = append(e.attends.caches, described)
	}
	var err error
	e.attends.queries, err = e.machine.queriesMap(e.buf.qkv, e.layout.tokens, g.Heads, g.KVHeads, g.HeadDim)
	return err
}

// cacheMap describes the cache of a layer, so many keys and values, in boxes of keys that lie in one block.
func (m *machine) cacheMap(cache ptr, rows, headDim int) (tensorMap, error) {
	return m.matrixMap(cache, rows, headDim, blockKeys)
}

// queriesMap describes queries, keys and values of so many tokens, in boxes of the tokens of a whole wide tile and the query heads of a KV head.
func (m *machine) queriesMap(qkv ptr, tokens, heads, kvHeads, headDim int) (tensorMap, error) {
	all, group := heads+2*kvHeads, heads/kvHeads
	return m.tensorMap(tensor{base: qkv, sizes: []int{headDim, all, tokens}, strides: []int{2 * headDim, 2 * headDim * all}, box: []int{64, group, wideRows / group}})
}
