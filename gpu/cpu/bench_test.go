package cpu

import (
	"context"
	"fmt"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// BenchmarkQwen3 times whole steps of the qwen3-0.6b geometry with random weights in 2.4 GB of float32: a prefill of 512
// tokens, and decode of 1 and 8 sequences over 512 cached tokens each. scripts/peers/torch_cpu.py times the same beside
// PyTorch.
func BenchmarkQwen3(b *testing.B) {
	g := geometry(b, "qwen3-0.6b", "")
	const length, batch, blockSize = 512, 8, 16
	perSequence := length/blockSize + 1
	e, err := New(gpu.Config{
		Geometry: g, Weights: model.Random(0, g), Blocks: batch*perSequence + 1, BlockSize: blockSize,
		MaxBatchedTokens: length, MaxSeqs: batch, MaxModelLen: length + blockSize,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	table := func(sequence int) []int32 {
		blocks := make([]int32, perSequence)
		for i := range blocks {
			blocks[i] = int32(1 + sequence*perSequence + i)
		}
		return blocks
	}
	var out gpu.Output
	run := func(b *testing.B, step *gpu.Step) {
		b.Helper()
		if err := e.Enqueue(step); err != nil {
			b.Fatal(err)
		}
		if err := e.Await(context.Background(), &out); err != nil {
			b.Fatal(err)
		}
	}
	b.Run(fmt.Sprintf("prefill%d", length), func(b *testing.B) {
		step := &gpu.Step{Rows: []gpu.Row{{Tokens: prompt(g, 1, length), Blocks: table(0)}}}
		for b.Loop() {
			run(b, step)
		}
	})
	for _, n := range []int{1, batch} {
		b.Run(fmt.Sprintf("decode%d", n), func(b *testing.B) {
			step := &gpu.Step{}
			for s := range n {
				step.Rows = append(step.Rows, gpu.Row{Slot: s, Tokens: []uint32{uint32(s)}, Computed: length, Blocks: table(s)})
			}
			for b.Loop() {
				run(b, step)
			}
		})
	}
}
