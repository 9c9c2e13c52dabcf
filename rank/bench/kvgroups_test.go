package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// The cache shapes of published models, on one worker and on two.
func TestKVGroups(t *testing.T) {
	window := 4096
	for _, c := range []struct {
		model string
		tp    int
		want  []artifact.KVGroup
	}{
		{"llama-3.1-8b", 1, []artifact.KVGroup{{Type: "FullAttentionSpec", HeadSize: 128, NumKVHeads: 8}}},
		{"llama-3.1-8b", 2, []artifact.KVGroup{{Type: "FullAttentionSpec", HeadSize: 128, NumKVHeads: 4}}},
		{"mistral-7b-v0.1", 1, []artifact.KVGroup{{Type: "SlidingWindowSpec", HeadSize: 128, NumKVHeads: 8, SlidingWindow: &window}}},
		// 512 compressed values and 64 rotated ones, on every worker.
		{"deepseek-v3", 1, []artifact.KVGroup{{Type: "MLAAttentionSpec", HeadSize: 576, NumKVHeads: 1}}},
		{"deepseek-v3", 8, []artifact.KVGroup{{Type: "MLAAttentionSpec", HeadSize: 576, NumKVHeads: 1}}},
	} {
		g, err := model.Load(c.model, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.want {
			c.want[i].DType, c.want[i].BlockSize = "bfloat16", 16
		}
		got := kvGroups(&Config{BlockSize: 16}, Setup{Info: gpu.Info{KVDType: "bfloat16"}, Geometry: g, Sizes: artifact.Sizes{TP: c.tp, PCP: 1, PP: 1}})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s on %d workers (-want +got):\n%s", c.model, c.tp, diff)
		}
		// The bytes that the engines reserve tell the same.
		g0 := got[0]
		if values := int64(g0.HeadSize * g0.NumKVHeads * g.Layers); g.MLA != nil && values != g.KVBytesPerToken(1, c.tp) || g.MLA == nil && 2*values != g.KVBytesPerToken(1, c.tp) {
			t.Errorf("%s on %d workers: %d values a token, the pool holds %d", c.model, c.tp, values, g.KVBytesPerToken(1, c.tp))
		}
	}
}
