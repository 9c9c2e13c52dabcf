package cpu

import (
	"fmt"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// Every way to compute a token must give the logits of the plain float64 pass.
func TestAgainstReference(t *testing.T) {
	const limit = 1e-5
	for _, f := range families {
		for _, bs := range []int{16, 32, 64} {
			t.Run(fmt.Sprintf("%s/block%d", f.name, bs), func(t *testing.T) {
				g := geometry(t, f.name, f.overrides)
				cfg := config(g)
				cfg.BlockSize = bs
				w := start(t, cfg, 1)
				ref := &reference{g: g, src: cfg.Weights, t: t}
				long := prompt(g, 1, 90)
				want := ref.logits(long, cfg.MaxModelLen)

				s := w.open(long[:77], 77)
				w.run(0, s, long[:77], 0)
				w.near("prefill of 77", 0, want[76], limit)
				s.Release()

				s = w.open(long[:80], 80)
				if s.Cached() == 0 {
					t.Fatal("no prefix hit after the first prefill")
				}
				w.run(0, s, long[:80], 0)
				w.near(fmt.Sprintf("prefix hit of %d", s.Cached()), 0, want[79], limit)
				for n := 81; n <= 90; n++ {
					if err := s.Grow(n); err != nil {
						t.Fatal(err)
					}
					w.step(gpu.Row{Slot: 0, Tokens: long[n-1 : n], Computed: n - 1, Blocks: s.Blocks()})
					w.near(fmt.Sprintf("decode at %d", n-1), 0, want[n-1], limit)
				}
				s.Release()

				other := prompt(g, 2, 70)
				wantOther := ref.logits(other, cfg.MaxModelLen)
				s = w.open(other, 70)
				w.run(1, s, other, 1, 30, 17, 0)
				w.near("chunks of 1, 30, 17, 22", 0, wantOther[69], limit)

				// Decode of one sequence and prefill chunks of two others in one step.
				a, b := w.open(long[:40], 40), w.open(nil, 25)
				third := prompt(g, 3, 25)
				wantThird := ref.logits(third, cfg.MaxModelLen)
				at := a.Cached()
				w.step(
					gpu.Row{Slot: 1, Tokens: other[69:], Computed: 69, Blocks: s.Blocks()},
					gpu.Row{Slot: 2, Tokens: long[at:40], Computed: at, Blocks: a.Blocks()},
					gpu.Row{Slot: 3, Tokens: third, Blocks: b.Blocks()},
				)
				w.near("decode row of a mixed step", 0, wantOther[69], limit)
				w.near("chunk row of a mixed step", 1, want[39], limit)
				w.near("prefill row of a mixed step", 2, wantThird[24], limit)
			})
		}
	}
}
