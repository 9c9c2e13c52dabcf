package bench

import (
	"github.com/fpmrun/fpmrun/artifact"
)

// kvGroups lists the cache shapes of a model: one group for each attention window that a layer has. Multi-head latent attention
// caches one compressed vector per token, the key and value part followed by the rotated key part, whatever the number of heads and
// workers (DeepSeek-V2, arXiv:2405.04434, section 2.1.3).
func kvGroups(c *Config, u Setup) []artifact.KVGroup {
	shape := artifact.KVGroup{Type: "FullAttentionSpec", DType: u.Info.KVDType, HeadSize: u.Geometry.HeadDim, NumKVHeads: u.Geometry.LocalKVHeads(u.Sizes.TP), BlockSize: c.BlockSize}
	windowed := "SlidingWindowSpec"
	if latent := u.Geometry.MLA; latent != nil {
		shape.Type, shape.HeadSize, shape.NumKVHeads = "MLAAttentionSpec", latent.KVRank+latent.RopeDim, 1
		windowed = "SlidingWindowMLASpec"
	}
	groups := []artifact.KVGroup{}
	seen := map[int]bool{}
	for _, window := range u.Geometry.Windows {
		if seen[window] {
			continue
		}
		seen[window] = true
		g := shape
		if window > 0 {
			g.Type, g.SlidingWindow = windowed, &window
		}
		groups = append(groups, g)
	}
	return groups
}
