package bench

import (
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/cpu"
	"github.com/fpmrun/fpmrun/gpu/kv"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// Between the start signal and the last output nothing is allocated.
func TestTimedStepsAllocateNothing(t *testing.T) {
	g, err := model.Load("tiny", nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := cpu.New(gpu.Config{Geometry: g, Weights: model.Random(0, g), Blocks: 32, BlockSize: 16, MaxBatchedTokens: 16, MaxSeqs: 2, MaxModelLen: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	cache, err := kv.New(kv.Config{Blocks: 32, BlockSize: 16, PrefixCaching: true})
	if err != nil {
		t.Fatal(err)
	}
	b, err := open(cache, [][]uint32{{1, 2, 3}, {4, 5, 6}}, []string{"a", "b"}, 4)
	if err != nil {
		t.Fatal(err)
	}
	b.decodeSteps([]int{2, 2}, 4)
	f := forward{engine: engine, depth: engine.Info().Depth}
	outs := outputs(b.steps)
	ctx, start := t.Context(), func() (int64, error) { return gpu.Monotonic(), nil }
	allocations := testing.AllocsPerRun(20, func() {
		if _, err := f.run(ctx, b.steps, outs, start); err != nil {
			t.Error(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations in %d steps", allocations, len(b.steps))
	}
	for k := range outs {
		if k > 0 && outs[k].Arrival <= outs[k-1].Arrival {
			t.Errorf("output %d arrives at %d, the one before at %d", k, outs[k].Arrival, outs[k-1].Arrival)
		}
	}
}
