package cuda

import (
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/kernels"
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
			sums, _ := fewBuffers(g, multiprocessors)
			for tokens := 1; tokens <= fewTokens; tokens++ {
				for _, chain := range fewChains(g) {
					for _, p := range slices.Concat(planChain(chain, tokens, fewDevice{multiprocessors, false, 0}), planChain(chain, tokens, fewDevice{multiprocessors, true, multiprocessors / clusterBlocks})) {
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
							if units := int64(p.products[i].units()); s > p.blocks || s > 1 && units*int64(s*p.tiles)*512 > sums {
								t.Errorf("%s, %d tokens, %d multiprocessors: %v is planned as %+v, with a buffer of %d bytes", preset, tokens, multiprocessors, p.products, p, sums)
							}
						}
					}
				}
				if preset == "llama-3.1-8b" && multiprocessors == 132 {
					t.Logf("%d tokens: %+v", tokens, planFew(fewChains(g)[1], tokens, fewDevice{multiprocessors, true, multiprocessors / clusterBlocks}))
				}
			}
		}
	}
}

// A block of attention_few has room beside one of the chains that it runs beside: in shared memory, of which the system takes 1 KiB for each block, and in the registers of a quarter of a
// multiprocessor, where three warps of a chain and one of attention are.
func TestBesideFits(t *testing.T) {
	const memory, system, registers = 228 << 10, 1 << 10, 64 << 10 / 4
	limits, err := kernels.ReadLimits()
	if err != nil {
		t.Fatal(err)
	}
	for _, preset := range []string{"llama-3.1-8b", "llama-3.1-70b", "mistral-7b-v0.1", "qwen2.5-7b"} {
		g, err := model.Load(preset, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		d := fewDevice{132, true, 33}
		c := besideCut(g, d)
		if c == nil || c.lists*g.KVHeads > d.multiprocessors {
			t.Errorf("%s: attention beside a chain is cut as %+v", preset, c)
		}
		own, _ := limits.Of(g.HeadDim, kernels.Few)
		own.Shared += besideShared(g.HeadDim)
		for tokens := heldFrom; tokens <= besideMost; tokens++ {
			for _, chain := range fewChains(g)[:3] {
				for _, p := range planChain(chain, tokens, d) {
					name, threads := p.kernel()
					r, known := limits.Of(g.HeadDim, name)
					if !known || p.shared+r.Shared+own.Shared+2*system > memory || ((threads/32+3)/4*r.Registers+attentionThreads/128*own.Registers)*32 > registers {
						t.Errorf("%s, %d tokens: %+v with %+v leaves no room for attention with %+v", preset, tokens, p, r, own)
					}
				}
			}
		}
	}
}
