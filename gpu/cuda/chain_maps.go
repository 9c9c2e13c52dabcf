//go:build linux && cgo

package cuda

// chainMaps are the tensors that chain_cluster.cu copies from.
type chainMaps struct {
	weights map[ptr]tensorMap
	tokens  map[chainTokens]tensorMap
}

// chainTokens are tokens in boxes of so many tiles.
type chainTokens struct {
	base  ptr
	tiles int
}

// describeChains describes weights and activations, where clusters compute products.
func (e *Engine) describeChains() error {
	g, buf, d := e.cfg.Geometry, &e.buf, e.device.few()
	if !fewServed(g, clusterFrom, d) {
		return nil
	}
	e.chains = chainMaps{map[ptr]tensorMap{}, map[chainTokens]tensorMap{}}
	first, _ := e.fewQKV(0)
	list := []link{first, e.head()}
	for i := range e.weights.layers {
		links, _ := e.fewLinks(i)
		list = append(list, links...)
	}
	for _, l := range list {
		p := &l.product
		described, err := e.machine.unitsMap(p.weights, p.kind, int(p.n), int(p.k), g.HeadDim)
		if err != nil {
			return err
		}
		e.chains.weights[p.weights] = described
	}
	for base, width := range map[ptr]int{buf.h: g.Hidden, buf.attn: g.QSize(), buf.act: g.Intermediate} {
		for tiles := 2; 8*tiles <= clusterTokens; tiles *= 2 {
			rows := e.layout.tokens
			if base == buf.h {
				rows = max(rows, e.layout.rows)
			}
			described, err := e.machine.matrixMap(base, rows, width, 8*tiles)
			if err != nil {
				return err
			}
			e.chains.tokens[chainTokens{base, tiles}] = described
		}
	}
	return nil
}

// unitsMap describes weights of n rows of k columns as a product of a kind takes them: in units of 16 rows, which are eight and eight others, and heads of units that are rotated.
func (m *machine) unitsMap(base ptr, kind int32, n, k, headDim int) (tensorMap, error) {
	row := 2 * k // bytes
	units, other, next, heads := n/16, 8, 16, 1
	switch kind {
	case gateProduct:
		other, next = n/2, 8
	case rotateProduct:
		units, other, next, heads = headDim/16, headDim/2, 8, n/headDim
	}
	return m.tensorMap(tensor{base: base, sizes: []int{k, 8, 2, units, heads}, strides: []int{row, other * row, next * row, headDim * row}, box: []int{64, 8, 2, clusterRows / 16, 1}})
}
