//go:build linux && cgo

package cuda

// clusters runs single products of every kind by clusters, all columns in a cluster and split unevenly, and chains of them.
func (s *stand) clusters(rotate bool) {
	if _, hopper := s.functions["chain_cluster_64"]; !hopper {
		return
	}
	turns := uint32(0)
	if rotate {
		if s.head%clusterRows == 0 {
			for i, tokens := range []int{3, 30, 64} {
				s.chain(chainCase{tokens: tokens, ring: 3 + i, clusters: 1 + i, k: 320, links: []linkCase{{int(rotateProduct), 0, 1 + i/2, true, i%2 == 0}}, heads: 2, kvHeads: 1}, &turns)
			}
		}
		return
	}
	add, gate, plain, float := int(addProduct), int(gateProduct), int(plainProduct), int(floatProduct)
	for i, kind := range []int{plain, float, add, gate} {
		for j, tokens := range []int{1, 16, 17, 32, 50, 64} {
			if short() && (i+j)%3 > 0 {
				continue
			}
			for _, splits := range []int{1, 3} {
				s.chain(chainCase{tokens: tokens, ring: 2 + (i+j)%5, clusters: min(3, (1+(i+j)%3)*splits), k: 320 + 64*((i+j)%5), links: []linkCase{{kind, 96, splits, j%3 > 0, j%2 == 0}}}, &turns)
			}
		}
	}
	for i, links := range [][]linkCase{
		{{add, 128, 1, false, true}, {gate, 256, 1, true, false}},
		{{add, 192, 2, true, false}, {gate, 256, 1, true, false}, {add, 128, 2, false, true}, {plain, 160, 1, true, true}},
		{{add, 64, 1, false, false}, {gate, 640, 1, true, false}, {add, 128, 3, false, false}, {float, 80, 2, true, false}},
		{{plain, 64, 1, false, false}, {plain, 16, 1, false, false}}, // fewer units than clusters
	} {
		for j, tokens := range []int{5, 24, 64} {
			for clusters := 1; clusters <= 3; clusters++ {
				fits := true
				for _, l := range links {
					fits = fits && l.splits <= clusters
				}
				if fits && (!short() || (i+j+clusters)%3 == 0) {
					s.chain(chainCase{tokens: tokens, ring: 3 + i + j, clusters: clusters, k: 192, links: links}, &turns)
				}
			}
		}
	}
	s.chain(chainCase{tokens: 64, ring: 8, clusters: 2, k: 64 * 4 * 16, links: []linkCase{{plain, 192, 1, true, false}, {add, 64, 1, false, true}}}, &turns) // as many columns as a block has room for
}

// describe makes the tensors of a product.
func (s *stand) describe(c *chainCase, r *ran, i int, all *chainClusterArgs) {
	p := &all.chain.products[i]
	var err error
	if all.weights[i], err = s.m.unitsMap(p.weights, p.kind, int(p.n), int(p.k), s.head); err != nil {
		s.t.Fatal(err)
	}
	if all.tokens[i], err = s.m.matrixMap(p.in, c.tokens, r.k, 8*clusterTiles(c.tokens)); err != nil {
		s.t.Fatal(err)
	}
}
