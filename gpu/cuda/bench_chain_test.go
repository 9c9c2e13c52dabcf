//go:build linux && cgo

package cuda

import (
	"fmt"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// BenchmarkChain times the products of a layer, those of all layers one after the other, as planFew plans them and in the other ways that fit: the constants of planFew come from it.
func BenchmarkChain(b *testing.B) {
	e := benchEngine(b, "llama-3.1-8b")
	const room = 256 << 20 // for more splits than are planned
	var err error
	if e.buf.sums, err = e.machine.allocate("a benchmark", room); err == nil {
		err = e.machine.fill(e.buf.sums, 0xff, room)
	}
	if err != nil {
		b.Fatal(err)
	}
	links, _ := e.fewLinks(0)
	products, multiprocessors := sizes(links), e.device.Multiprocessors
	for _, tokens := range []int{1, 4, 8, 16, 32, 64} {
		var out gpu.Output
		if err := e.Enqueue(stepOf(tokens, 1, 1023)); err != nil { // brings the step structure to the device
			b.Fatal(err)
		}
		if err := e.Await(b.Context(), &out); err != nil {
			b.Fatal(err)
		}
		run := func(name string, p fewPlan) {
			b.Run(fmt.Sprintf("%d/%s, ring of %d, splits %v", tokens, name, p.ring, p.splits), func(b *testing.B) {
				list := &builder{m: e.machine, functions: e.functions, gemms: e.gemms}
				last := len(e.weights.layers) - 1
				for i := range last {
					links, _ := e.fewLinks(i)
					e.products(list, "", tokens, links, p)
				}
				b.ReportMetric(float64(benchGraph(b, e, list.commands).Nanoseconds())/1e3/float64(last), "us/chain")
			})
		}
		for down := 1; down <= 7 && e.chains.weights != nil && tokens > 8; down++ {
			splits := []int{1, 1, down, 1}
			if p := newClusterPlan(products, splits, tokens, e.device.clusters); p.ring >= clusterRingLeast {
				run("by clusters", p)
			}
		}
		if tokens > fewTokens {
			continue
		}
		run("planned", planFew(products, tokens, e.device.few()))
		run("planned in shared memory", planFew(products, tokens, fewDevice{multiprocessors, false, 0}))
		for _, others := range []int{1, 2} {
			for _, down := range []int{1, 2, 4, 6, 8} {
				splits := []int{others, others, down, others}
				columns := max(products[0].columns(others), products[2].columns(down))
				if e.device.hopper() && fewFits(true, tokens, 0, columns) {
					ring, _ := heldForm((tokens + 7) / 8)
					run("in registers", newFewPlan(products, splits, true, tokens, ring, multiprocessors))
				}
				for _, ring := range fewRings {
					if fewFits(false, tokens, ring, columns) { // the longest ring
						run("in shared memory", newFewPlan(products, splits, false, tokens, ring, multiprocessors))
						break
					}
				}
			}
		}
	}
}
