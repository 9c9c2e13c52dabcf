package cuda

import (
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// Chains of every preset have at most one block for each multiprocessor, which its shared memory keeps alone there, and buffers that hold their splits.
func TestFewPlans(t *testing.T) {
	for _, preset := range []string{"llama-3.1-8b", "llama-3.1-70b", "mistral-7b-v0.1", "qwen2.5-7b", "qwen3-8b", "qwen3-0.6b"} {
		g, err := model.Load(preset, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, multiprocessors := range []int{1, 6, 108, 132, 148} {
			sums, arrivals, _ := fewBuffers(g, multiprocessors)
			for tokens := 1; tokens <= fewTokens; tokens++ {
				for _, chain := range fewChains(g) {
					for _, p := range slices.Concat(planChain(chain, tokens, fewDevice{multiprocessors, false}), planChain(chain, tokens, fewDevice{multiprocessors, true})) {
						if p.ring == 0 {
							if multiprocessors > 6 {
								t.Errorf("%s, %d tokens, %d multiprocessors: %v does not fit", preset, tokens, multiprocessors, p.products)
							}
							continue
						}
						if p.blocks < 1 || p.blocks > multiprocessors || p.shared > sharedMost || 2*p.shared <= sharedMost {
							t.Errorf("%s, %d tokens, %d multiprocessors: %v is planned as %+v", preset, tokens, multiprocessors, p.products, p)
						}
						for i, s := range p.splits {
							if units := int64(p.products[i].units()); s > p.blocks || s > 1 && (units*int64(s*p.tiles)*512 > sums || 4*units > arrivals) {
								t.Errorf("%s, %d tokens, %d multiprocessors: %v is planned as %+v, with %d and %d bytes of buffers", preset, tokens, multiprocessors, p.products, p, sums, arrivals)
							}
						}
					}
				}
				if preset == "llama-3.1-8b" && multiprocessors == 132 {
					t.Logf("%d tokens: %+v", tokens, planFew(fewChains(g)[1], tokens, fewDevice{multiprocessors, true}))
				}
			}
		}
	}
}
