//go:build linux && cgo

package cuda

import (
	"fmt"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// BenchmarkAttention times the attention of wide tiles alone, that of all layers one after the other, by each kernel that the device has for it. FLOPs are
// those of the keys that a token sees: 4 a value of a query head and a key.
func BenchmarkAttention(b *testing.B) {
	e := benchEngine(b, "llama-3.1-8b")
	g, hopper := e.cfg.Geometry, e.device.hopper()
	for _, c := range prefillPoints {
		step := stepOf(c[0], c[1], c[2])
		tokens := e.shape(step.Tokens(), len(step.Rows), false).tokens
		var out gpu.Output
		if err := e.Enqueue(step); err != nil { // brings the step structure to the device
			b.Fatal(err)
		}
		if err := e.Await(b.Context(), &out); err != nil {
			b.Fatal(err)
		}
		keys := c[1]*c[2] + c[1]*(c[1]+1)/2 // that the tokens of a row see
		flops := 4 * float64(g.Heads*g.HeadDim) * float64(c[0]) * float64(keys)
		for _, group := range []bool{false, true} {
			if group && !hopper || c[1] < 512 {
				continue
			}
			b.Run(fmt.Sprintf("%dx%d+%d/%s", c[0], c[1], c[2], wideKernelFor(g.HeadDim, group).name), func(b *testing.B) {
				list := &builder{m: e.machine, functions: e.functions}
				for i := range g.Layers {
					e.attentionWide(list, i, tokens, group)
				}
				each := benchGraph(b, e, list.commands).Seconds() / float64(g.Layers)
				b.ReportMetric(each*1e6, "us/layer")
				b.ReportMetric(flops/each/1e12, "TFLOP/s")
			})
		}
	}
}
