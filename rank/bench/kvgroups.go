package bench

import (
	"github.com/fpmrun/fpmrun/artifact"
)

// kvGroups lists the cache shapes of a model: one group for each attention window that a layer has.
func kvGroups(c *Config, u Setup) []artifact.KVGroup {
	groups := []artifact.KVGroup{}
	seen := map[int]bool{}
	for _, window := range u.Geometry.Windows {
		if seen[window] {
			continue
		}
		seen[window] = true
		g := artifact.KVGroup{Type: "FullAttentionSpec", DType: u.Info.KVDType, HeadSize: u.Geometry.HeadDim, NumKVHeads: u.Geometry.LocalKVHeads(u.Sizes.TP), BlockSize: c.BlockSize}
		if window > 0 {
			g.Type, g.SlidingWindow = "SlidingWindowSpec", &window
		}
		groups = append(groups, g)
	}
	return groups
}
