//go:build linux && cgo

package cuda

import "testing"

// Prefill by the kernel of wide tiles, which short steps do not have by themselves on a large GPU, gives the reference's logits: in one piece, on cached tokens, and beside rows of one token.
func TestLogitsWide(t *testing.T) {
	l := needGPU(t)
	for _, m := range models {
		g := geometry(t, m.preset, m.overrides)
		if !tensorHeads(g.HeadDim) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			p := newPair(t, l, configuration(g))
			p.cuda.layout.wideMin = 1
			some := 300
			if testing.Short() {
				some = 50
			}
			p.step(p.row(0, ids(g, 1, some)))
			p.step(p.row(0, ids(g, 2, some/2+7)), p.row(1, ids(g, 3, 1)), p.row(2, ids(g, 4, 63)))
			p.step(p.row(0, ids(g, 5, 1)), p.row(1, ids(g, 6, 1)), p.row(2, ids(g, 7, some)))
			t.Logf("worst row: %.2g", p.worst)
		})
	}
}
