package artifact

import (
	"slices"
	"sort"
)

// Samples bounds how many values of each axis a generated grid keeps.
type Samples struct {
	PrefillNewTokens int // at least 2
	PrefillKVTokens  int // at least 2
	PrefillBatches   int // at least 1
	DecodeKVTokens   int // at least 2
	DecodeBatches    int // at least 2
}

// PrefillGrid generates the prefill points that fit, largest first.
func (l *Limits) PrefillGrid(s Samples) []Point {
	captures := l.PrefillGraph.Captures
	axis := GraphAwareLimit(Axis(captures, l.MaxTokens), captures, s.PrefillNewTokens)
	var points []Point
	for _, tokens := range axis {
		for _, batch := range l.prefillBatches(tokens, s.PrefillBatches) {
			for _, kv := range l.prefillKV(tokens, batch, s.PrefillKVTokens) {
				p := Point{PointType: Prefill, TotalPrefillTokens: tokens, TotalKVReadTokens: kv, BatchSize: batch}
				if l.Feasible(&p) == nil {
					points = append(points, p)
				}
			}
		}
	}
	slices.Reverse(points)
	return points
}

// prefillBatches is the powers of two that fit without KV and the largest batch that does, the first m of them.
func (l *Limits) prefillBatches(tokens, m int) []int {
	fits := func(batch int) bool {
		return l.Feasible(&Point{PointType: Prefill, TotalPrefillTokens: tokens, BatchSize: batch}) == nil
	}
	most := min(tokens, l.MaxRunning, l.MaxTokens)
	seen := map[int]bool{}
	for b := 1; b <= most; b *= 2 {
		if fits(b) {
			seen[b] = true
		}
	}
	for b := most; b >= 1; b-- {
		if fits(b) {
			seen[b] = true
			break
		}
	}
	sizes := sortedKeys(seen)
	return sizes[:min(m, len(sizes))]
}

// prefillKV is the KV totals for one batch: none, one block each, doublings, and the most that fits.
func (l *Limits) prefillKV(tokens, batch, m int) []int {
	if !l.PrefixCaching {
		return []int{0}
	}
	most := largest(l.Blocks, func(blocks int) bool {
		return blocks < batch || l.Feasible(&Point{PointType: Prefill, TotalPrefillTokens: tokens,
			TotalKVReadTokens: blocks * l.BlockSize, BatchSize: batch}) == nil
	})
	if most < batch {
		return []int{0}
	}
	seen := map[int]bool{0: true, most * l.BlockSize: true}
	for b := batch; b <= most; b = nextPower(b) {
		seen[b*l.BlockSize] = true
	}
	return UniformLimit(sortedKeys(seen), m)
}

// DecodeGrid generates the decode points that fit, by batch and KV total, at the coordinates that their steady
// steps read.
func (l *Limits) DecodeGrid(s Samples) []Point {
	most := l.LargestDecodeBatch()
	if l.MaxModelLen < 3 || most < 1 {
		return nil
	}
	captures := l.DecodeGraph.Captures
	var points []Point
	for _, batch := range GraphAwareLimit(Axis(captures, most), captures, s.DecodeBatches) {
		for _, kv := range l.decodeKV(batch, s.DecodeKVTokens) {
			p := Point{PointType: Decode, TotalKVReadTokens: kv, BatchSize: batch}
			if l.Feasible(&p) == nil {
				points = append(points, p)
			}
		}
	}
	return points
}

func (l *Limits) decodeKV(batch, m int) []int {
	most := largest(batch*l.MaxModelLen, func(kv int) bool {
		return kv < batch || l.Feasible(&Point{PointType: Decode, TotalKVReadTokens: kv, BatchSize: batch}) == nil
	})
	if most < batch {
		return nil
	}
	seen := map[int]bool{SteadyKV(most, batch): true}
	for kv := batch; kv <= most; kv = nextPower(kv) {
		seen[SteadyKV(kv, batch)] = true
	}
	return UniformLimit(sortedKeys(seen), m)
}

// nextPower is the smallest power of two above n.
func nextPower(n int) int {
	p := 1
	for p <= n {
		p *= 2
	}
	return p
}

// largest is the largest n in [0, high] with fits(n), for a fits that holds up to some number and not beyond.
func largest(high int, fits func(int) bool) int {
	return sort.Search(high+1, func(n int) bool { return !fits(n) }) - 1
}

func sortedKeys(set map[int]bool) []int {
	keys := make([]int, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
