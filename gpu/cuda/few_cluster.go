package cuda

import "github.com/fpmrun/fpmrun/gpu/model"

// Constants of chain_cluster.cu.
const (
	clusterBlocks    = 4
	clusterRows      = 64       // of a unit
	clusterBox       = 64 * 128 // bytes of 64 rows of a chunk
	clusterRingMost  = 24       // boxes
	clusterHead      = 1024     // bytes
	clusterThreads   = 256
	clusterTokens    = 64        // most tokens
	clusterRingLeast = 6         // boxes that keep memory busy
	clusterLines     = 128 << 10 // bytes of the tokens' columns that a block holds, at most
)

// clusterFrom is from how many tokens on clusters compute products. Above clusterTokens none do: no device has run them yet, tests do so on a CPU.
var clusterFrom = clusterTokens + 1

// clusterTiles is how many tiles of 8 tokens a kernel for so many tokens has.
func clusterTiles(tokens int) int {
	tiles := 2
	for 8*tiles < tokens {
		tiles *= 2
	}
	return tiles
}

// clusterChunks is how many chunks of a product's columns a block has, at most, that are split among so many clusters.
func (s fewSize) clusterChunks(splits int) int {
	return (s.k/fewColumns + clusterBlocks*splits - 1) / (clusterBlocks * splits)
}

// clusterShared is the shared memory of a block in bytes.
func clusterShared(tiles, ring, chunks int) int {
	return 1024 + clusterHead + ring*clusterBox + chunks*tiles*1024 + fewFinishers*clusterBlocks*tiles*32*16
}

// newClusterPlan is a chain for so many clusters, with each product's columns split among some, and as long a ring as there is room for.
func newClusterPlan(products []fewSize, splits []int, tokens, clusters int) fewPlan {
	p, chunks, used := fewPlan{products: products, tiles: clusterTiles(tokens), splits: splits, cluster: true}, 0, 0
	for i, size := range products {
		chunks = max(chunks, size.clusterChunks(splits[i]))
		used = max(used, min(clusters/splits[i], (size.n+clusterRows-1)/clusterRows)*splits[i])
	}
	p.ring = min(clusterRingMost, (sharedMost-clusterShared(p.tiles, 0, chunks))/clusterBox)
	p.blocks, p.shared = clusterBlocks*used, max(clusterShared(p.tiles, p.ring, chunks), sharedMost/2+1024)
	return p
}

// planCluster splits columns as little as the tokens' room allows: each split is a join of the clusters. The plan's ring is 0 where the products do not fit.
func planCluster(products []fewSize, tokens, clusters int) fewPlan {
	splits := make([]int, len(products))
	for i, size := range products {
		splits[i] = 1
		for size.clusterChunks(splits[i])*clusterTiles(tokens)*1024 > clusterLines {
			splits[i]++
		}
		if splits[i] > clusters || size.n%unitRows != 0 {
			return fewPlan{products: products}
		}
	}
	p := newClusterPlan(products, splits, tokens, clusters)
	if p.ring < clusterRingLeast {
		return fewPlan{products: products}
	}
	return p
}

// clusterServed says whether clusters compute the products of layers of a model for so many tokens. A unit lies within a head that is rotated.
func clusterServed(g *model.Geometry, tokens int, d fewDevice) bool {
	if d.clusters == 0 || g.HeadDim%clusterRows != 0 {
		return false
	}
	for _, chain := range fewChains(g)[:3] {
		if planCluster(chain, tokens, d.clusters).ring == 0 {
			return false
		}
	}
	return true
}
