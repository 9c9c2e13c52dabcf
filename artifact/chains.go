package artifact

import (
	"cmp"
	"slices"
)

// Decode over real KV: the requests of a batch of n stand on n chains of text that were computed before and stay in the cache. A request
// shares the whole blocks of its chain's prefix and has blocks of its own behind them.

// ChainDepth is the most tokens that each chain of a batch can have, so that its requests still find room for their own blocks in up to
// repeats steady steps: by the pool, and 4 tokens below the longest sequence. It is 0 when there is no room.
func (l *Limits) ChainDepth(batch, repeats int) int {
	own := 1 + blocksFor(repeats, l.BlockSize)
	return max(0, min(l.MaxModelLen-4, (l.BlocksWatermark/batch-own)*l.BlockSize))
}

// ChainNeed is how many tokens of its chain the longest request of a decode point is injected with, or 0 when the chains of its batch
// cannot be that deep.
func (l *Limits) ChainNeed(p *Point, repeats int) int {
	_, contexts, err := p.Lengths(l.BlockSize)
	if err != nil {
		return 0
	}
	need := max(1, slices.Max(contexts)-1)
	if need > l.ChainDepth(p.BatchSize, repeats) {
		return 0
	}
	return need
}

// orderForChains brings decode points into the order in which chains are made: points that chains cover before the others, large
// batches before small ones, and the deepest of a batch first.
func (l *Limits) orderForChains(points []Point, repeats int) {
	uncovered := func(p *Point) int {
		if l.ChainNeed(p, repeats) > 0 {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(points, func(a, b Point) int {
		return cmp.Or(cmp.Compare(uncovered(&a), uncovered(&b)), cmp.Compare(b.BatchSize, a.BatchSize), cmp.Compare(b.TotalKVReadTokens, a.TotalKVReadTokens))
	})
}
