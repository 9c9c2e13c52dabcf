package cuda

import "github.com/fpmrun/fpmrun/gpu/model"

// Constants of linear.cu.
const (
	fewTokens  = 16
	fewNormed  = 4 // that a product normalises itself
	fewStreams = 8
	fewColumns = 64 // of a chunk
	fewPadding = 8
	unitRows   = 16
)

// sharedMost is the shared memory of a block in bytes, at most.
const sharedMost = 226 << 10

// fewPlan is how a product of few tokens is launched.
type fewPlan struct {
	tiles  int // of 8 tokens
	splits int // of the columns among blocks
	blocks int
	ring   int // chunks in a warp's ring
	shared int // bytes of a block
}

// planFew chooses the split of the columns, by the time that it should take: units of 16 rows should fill all multiprocessors the same number of times. A block takes more than half
// of a multiprocessor's shared memory, so that there is never one with two blocks of a product while another has none: the next kernel's block begins where one ends.
func planFew(n, k, tokens, multiprocessors int) fewPlan {
	const (
		rate = 35   // bytes a nanosecond that a multiprocessor reads: an H200's memory over its multiprocessors
		join = 2000 // nanoseconds until a split unit is joined, which the unit after the next one waits for
		end  = 300  // the same of one that is not split
	)
	units := (n + unitRows - 1) / unitRows
	var best fewPlan
	least := 0.0
	for _, splits := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
		if splits > min(multiprocessors, k/fewColumns) {
			break
		}
		groups := min(multiprocessors/splits, units)
		columns := (k/fewColumns + splits - 1) / splits * fewColumns
		p := fewPlan{tiles: (tokens + 7) / 8, splits: splits, blocks: groups * splits}
		for _, p.ring = range []int{8, 6, 4, 3} {
			p.shared = 2*fewStreams*p.ring*unitRows*fewColumns + 2*fewStreams*p.tiles*32*16 + 2*tokens*(columns+fewPadding)
			if p.shared <= sharedMost {
				break
			}
		}
		unit := max(float64(2*unitRows*columns)/rate, end)
		if splits > 1 {
			unit = max(unit, join)
		}
		cost := float64((units+groups-1)/groups) * unit
		if p.shared <= sharedMost && (least == 0 || cost < least) {
			best, least = p, cost
		}
	}
	best.shared = max(best.shared, sharedMost/2+1024)
	return best
}

// fewGeometry says whether all products of a model have the form that linear.cu takes.
func fewGeometry(g *model.Geometry) bool {
	return g.Hidden%fewColumns == 0 && g.QSize()%fewColumns == 0 && g.Intermediate%fewColumns == 0
}

// fewBuffers is the memory in bytes that products of few tokens need for split columns: the sums of the splits, and a count for each unit.
func fewBuffers(g *model.Geometry, multiprocessors int) (sums, arrivals int64) {
	if !fewGeometry(g) {
		return 0, 0
	}
	for _, m := range [][2]int{{g.QSize() + 2*g.KVSize(), g.Hidden}, {g.Hidden, g.QSize()}, {2 * g.Intermediate, g.Hidden}, {g.Hidden, g.Intermediate}, {g.Vocab, g.Hidden}} {
		units := int64(m[0]+unitRows-1) / unitRows
		for tokens := 1; tokens <= fewTokens; tokens++ {
			if p := planFew(m[0], m[1], tokens, multiprocessors); p.splits > 1 {
				sums = max(sums, units*int64(p.splits*p.tiles)*32*16)
				arrivals = max(arrivals, 4*units)
			}
		}
	}
	return sums, arrivals
}
