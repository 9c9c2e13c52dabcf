//go:build linux && cgo

package cuda

import "github.com/fpmrun/fpmrun/gpu/kernels"

// wideAttentions runs rows of many new tokens: on cached keys and on none, with the end of a row at, before and after the end of a stage of keys, of a box of them and of a block.
func (s *stand) wideAttentions() {
	many := [][2]int{{0, 150}, {70, 60}, {33, 1}, {500, 9}}
	ends := [][2]int{{0, 128}, {111, 17}, {112, 17}, {200, 56}, {1, 126}, {240, 17}, {0, 129}}
	for i, groups := range [][2]int{{4, 2}, {7, 1}, {2, 2}, {8, 1}} {
		blockSize := []int{32, 64, 16, 48}[i]
		for _, window := range []int{0, 50} {
			s.attention(attentionCase{heads: groups[0], kvHeads: groups[1], window: window, lists: 3, blockSize: blockSize, wide: true, rows: many})
			if !short() {
				s.attention(attentionCase{heads: groups[0], kvHeads: groups[1], window: 3 * window, lists: 3, blockSize: 16, wide: true, rows: ends})
			}
		}
	}
	s.attention(attentionCase{heads: 5, kvHeads: 1, lists: 3, blockSize: 16, wide: true, rows: ends})
	s.attention(attentionCase{heads: 4, kvHeads: 1, lists: 3, blockSize: 16, wide: true, steep: true, rows: [][2]int{{0, 1}, {600, 70}}})
	if short() {
		return
	}
	for _, window := range []int{0, 300} {
		s.attention(attentionCase{heads: 8, kvHeads: 2, window: window, lists: 33, blockSize: 16, wide: true, rows: [][2]int{{0, 600}, {1500, 100}, {3000, 1}}})
		s.attention(attentionCase{heads: 4, kvHeads: 4, window: window, lists: 33, blockSize: 64, wide: true, rows: [][2]int{{0, 1}, {517, 300}, {4000, 33}, {0, 257}}})
	}
}

// attendWide launches a kernel of the wide tiles of a case, with so many keys and values in the cache and so many tokens in the step.
func (s *stand) attendWide(k wideKernel, c *attentionCase, keys, tokens int, args attentionArgs) {
	s.t.Helper()
	grid := [3]int{5, 1, 1}
	if k.name != kernels.Hopper {
		launch(s, k.name, grid, k.threads, k.shared, args)
		return
	}
	cache, err := s.m.cacheMap(args.cache, keys, s.head)
	if err != nil {
		s.t.Fatal(err)
	}
	queries, err := s.m.queriesMap(args.qkv, tokens, c.heads, c.kvHeads, s.head)
	if err != nil {
		s.t.Fatal(err)
	}
	launch(s, k.name, grid, k.threads, k.shared, attentionHopperArgs{cache, queries, args})
}

// wideKernels are those that the device has for the wide tiles of a case, or one without a name.
func (s *stand) wideKernels(c *attentionCase) []wideKernel {
	switch _, hopper := s.functions[kernels.Hopper]; {
	case !c.wide:
		return make([]wideKernel, 1)
	case hopper:
		return []wideKernel{wideKernelFor(s.head, false), wideKernelFor(s.head, true)}
	default:
		return []wideKernel{wideKernelFor(s.head, false)}
	}
}
