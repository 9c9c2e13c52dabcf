package cuda

import (
	"fmt"
	"slices"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// Constants of linear.cu and chain.cu.
const (
	fewTokens    = 16
	fewStreams   = 8
	fewFinishers = 2
	fewColumns   = 64 // of a chunk
	fewPadding   = 8
	unitRows     = 16
	fewProducts  = 4 // of a chain
	fewBarriers  = 128
	chainThreads = 32 * (fewStreams + fewFinishers)
	heldTurns    = 8 // chunks in a unit of a warp that holds its tokens in registers, at most
)

// heldForm is the form of the kernels that hold so many tiles of tokens in registers: chunks in a ring, and threads.
func heldForm(tiles int) (ring, threads int) {
	if tiles == 1 {
		return 11, chainThreads
	}
	return 13, 384
}

// heldFrom is from how many tokens on they are held in registers where the device has the kernels for it: from then on too attention runs beside a chain. A single token leaves room for a
// long ring in shared memory, and its attention is faster with whole multiprocessors.
const heldFrom = 2

// fewDevice is what the plans of chains depend on.
type fewDevice struct {
	multiprocessors int
	hopper          bool // has the kernels that hold tokens in registers
	clusters        int  // of blocks of chain_cluster.cu that run at the same time; 0: it has none
}

// held says whether chains of so many tokens hold them in registers.
func (d fewDevice) held(tokens int) bool { return d.hopper && tokens >= heldFrom }

// sharedMost is the shared memory of a block in bytes, at most.
const sharedMost = 226 << 10

// fewRings are the lengths, in chunks, that rings can have beside tokens in shared memory.
var fewRings = []int{11, 8, 6, 5, 4, 3}

// fewSize is the size of a product's weights: n rows of k columns.
type fewSize struct{ n, k int }

func (s fewSize) units() int { return (s.n + unitRows - 1) / unitRows }

// columns is how many of them a block has at most where they are split among so many.
func (s fewSize) columns(splits int) int { return (s.k/fewColumns + splits - 1) / splits * fewColumns }

// fewPlan is how a chain of products of few tokens is launched.
type fewPlan struct {
	products []fewSize
	tiles    int   // of 8 tokens
	splits   []int // of each product's columns among blocks
	blocks   int   // at most one for each multiprocessor
	held     bool  // tokens are held in registers
	cluster  bool  // clusters of blocks share the columns
	ring     int   // chunks in a warp's ring; 0: the chain does not fit
	shared   int   // bytes of a block
}

// kernel is the kernel of a plan, and its threads.
func (p *fewPlan) kernel() (name string, threads int) {
	if p.cluster {
		return fmt.Sprintf("chain_cluster_%d", 8*p.tiles), clusterThreads
	}
	if p.held {
		_, threads = heldForm(p.tiles)
		return fmt.Sprintf("chain_held_%d", 8*p.tiles), threads
	}
	return fmt.Sprintf("chain_%d", 8*p.tiles), chainThreads
}

// fewShared is the shared memory of a block in bytes: barriers, rings, sums of two units, and tokens with so many columns, none where they are held.
func fewShared(tokens, ring, columns int) int {
	tiles := (tokens + 7) / 8
	bytes := fewBarriers + 2*fewStreams*ring*unitRows*fewColumns + fewFinishers*fewStreams*tiles*32*16
	if columns > 0 {
		bytes += 2 * tokens * (columns + fewPadding)
	}
	return bytes
}

// fewFits says whether a block has room for tokens with so many columns: in registers, or beside a ring.
func fewFits(held bool, tokens, ring, columns int) bool {
	if held {
		return columns <= heldTurns*fewStreams*fewColumns
	}
	return fewShared(tokens, ring, columns) <= sharedMost
}

// newFewPlan is a chain whose tokens are held in registers or not, with a ring of so many chunks and each product's columns split among so many blocks.
func newFewPlan(products []fewSize, splits []int, held bool, tokens, ring, multiprocessors int) fewPlan {
	p, columns := fewPlan{products: products, tiles: (tokens + 7) / 8, splits: splits, held: held, ring: ring}, 0
	for i, size := range products {
		if !held {
			columns = max(columns, size.columns(splits[i]))
		}
		p.blocks = max(p.blocks, min(multiprocessors/splits[i], size.units())*splits[i])
	}
	// More than half of a multiprocessor's shared memory, so that there is never one with two blocks of a chain while another has none.
	p.shared = max(fewShared(tokens, ring, columns), sharedMost/2+1024)
	return p
}

// planFew chooses a ring that all products share, and the split of each one's columns, by the time that the chain should take: a long ring hides the pause between two products,
// splits make room for it and cost a join for each unit.
func planFew(products []fewSize, tokens int, d fewDevice) fewPlan {
	const (
		rate    = 35.0   // bytes a nanosecond that a multiprocessor reads: an H200's memory over its multiprocessors
		latency = 1300.0 // nanoseconds from a copy's begin to its end
		join    = 1000.0 // nanoseconds until a split unit is joined, which the unit after the next one waits for
		end     = 300.0  // the same of one that is not split
		pause   = 3000.0 // between two products, without bringing tokens
		bring   = 60.0   // bytes a nanosecond of tokens
		chunk   = 2 * fewStreams * unitRows * fewColumns
	)
	best, least := fewPlan{products: products}, 0.0
	held, rings := d.held(tokens), fewRings
	if held {
		ring, _ := heldForm((tokens + 7) / 8)
		rings = []int{ring}
	}
	for _, ring := range rings {
		splits, cost := make([]int, len(products)), 0.0
		for i, size := range products {
			took := 0.0
			for _, s := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
				c := size.columns(s)
				if s > min(d.multiprocessors, size.k/fewColumns) || !fewFits(held, tokens, ring, c) {
					continue
				}
				unit := max(float64(2*unitRows*c)/min(rate, float64((ring-1)*chunk)/latency), end)
				stop := pause + float64(2*tokens*c)/bring
				if s > 1 {
					unit, stop = max(unit, join), stop+join
				}
				groups := d.multiprocessors / s
				t := float64((size.units()+groups-1)/groups) * unit
				if i > 0 {
					t += max(0, stop-float64(ring*chunk)/rate)
				}
				if splits[i] == 0 || t < took {
					splits[i], took = s, t
				}
			}
			cost += took
		}
		if !slices.Contains(splits, 0) && (least == 0 || cost < least) {
			best, least = newFewPlan(products, splits, held, tokens, ring, d.multiprocessors), cost
		}
	}
	return best
}

// fewGeometry says whether all products of a model have the form that linear.cu takes.
func fewGeometry(g *model.Geometry) bool {
	return g.Hidden%fewColumns == 0 && g.QSize()%fewColumns == 0 && g.Intermediate%fewColumns == 0
}

// The products of a layer, and the one after all layers.
func qkvSize(g *model.Geometry) fewSize    { return fewSize{g.QSize() + 2*g.KVSize(), g.Hidden} }
func outSize(g *model.Geometry) fewSize    { return fewSize{g.Hidden, g.QSize()} }
func gateUpSize(g *model.Geometry) fewSize { return fewSize{2 * g.Intermediate, g.Hidden} }
func downSize(g *model.Geometry) fewSize   { return fewSize{g.Hidden, g.Intermediate} }
func headSize(g *model.Geometry) fewSize   { return fewSize{g.Vocab, g.Hidden} }

// fewChains are the chains of a model's step: the first one, that of a layer but the last, that of the last one, and the last one.
func fewChains(g *model.Geometry) [][]fewSize {
	layer := []fewSize{outSize(g), gateUpSize(g), downSize(g), qkvSize(g)}
	return [][]fewSize{layer[3:], layer, layer[:3], {headSize(g)}}
}

// planChain are the plans of a list of products, one behind the other: one plan where they fit together, else one for each product.
func planChain(products []fewSize, tokens int, d fewDevice) []fewPlan {
	if tokens >= clusterFrom {
		return []fewPlan{planCluster(products, tokens, d.clusters)}
	}
	if p := planFew(products, tokens, d); len(products) <= 1 || p.ring > 0 {
		return []fewPlan{p}
	}
	var plans []fewPlan
	for i := range products {
		plans = append(plans, planFew(products[i:i+1], tokens, d))
	}
	return plans
}

// fewServed says whether chains compute the products of so many tokens of a model.
func fewServed(g *model.Geometry, tokens int, d fewDevice) bool {
	return fewGeometry(g) && (tokens <= fewTokens || tokens >= clusterFrom && tokens <= clusterTokens && clusterServed(g, tokens, d))
}

// fewBuffers is the memory in bytes that products of few tokens need on any device with so many multiprocessors: the sums of split columns, and the word of the barrier between products.
func fewBuffers(g *model.Geometry, multiprocessors int) (sums, turns int64) {
	if !fewGeometry(g) {
		return 0, 0
	}
	for _, chain := range fewChains(g) {
		for tokens := 1; tokens <= clusterTokens; tokens++ {
			var plans []fewPlan
			for _, d := range []fewDevice{{multiprocessors, false, 0}, {multiprocessors, true, multiprocessors / clusterBlocks}} {
				if fewServed(g, tokens, d) {
					plans = append(plans, planChain(chain, tokens, d)...)
				}
			}
			for _, p := range plans {
				for i, splits := range p.splits {
					if splits > 1 {
						sums = max(sums, int64(p.products[i].units()*splits*p.tiles)*32*16)
					}
				}
			}
		}
	}
	return sums, 4
}
