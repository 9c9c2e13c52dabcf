//go:build linux && cgo

package cuda

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// decodePoints are batch and context of the decode steps that the peers were measured at.
var decodePoints = [][2]int{{1, 1024}, {1, 4096}, {4, 128}, {16, 4096}, {64, 1024}, {64, 4096}, {256, 1024}}

// prefillPoints are batch, new tokens and cached tokens of prefill steps.
var prefillPoints = [][3]int{{1, 128, 0}, {1, 512, 0}, {1, 2048, 0}, {4, 2048, 0}, {1, 8192, 0}, {1, 512, 4096}}

// benchEngine is an engine of a model as it is run, with random weights.
func benchEngine(b *testing.B, preset string) *Engine {
	b.Helper()
	l := needGPU(b)
	g := geometry(b, preset, `{}`)
	e, err := New(gpu.Config{Geometry: g, Weights: model.Random(5, g), Blocks: 20000, BlockSize: 16, MaxBatchedTokens: 8192, MaxSeqs: 256, MaxModelLen: 16384, Graph: gpu.GraphConfig{Mode: "FULL_AND_PIECEWISE"}}, l, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	return e
}

// stepOf is a step of rows with so many new and cached tokens, on blocks that no other row has.
func stepOf(batch, fresh, cached int) *gpu.Step {
	step := &gpu.Step{}
	per := (fresh+cached)/16 + 1
	for r := range batch {
		blocks := make([]int32, per)
		for i := range blocks {
			blocks[i] = int32(1 + (r*per+i*7919%per)%19990)
		}
		tokens := make([]uint32, fresh)
		for i := range tokens {
			tokens[i] = uint32(r*31+i*17) % 50000
		}
		step.Rows = append(step.Rows, gpu.Row{Slot: r, Tokens: tokens, Computed: cached, Blocks: blocks})
	}
	return step
}

// benchStep times a step from its launch to its output, one at a time.
func benchStep(b *testing.B, e *Engine, step *gpu.Step) {
	d := floorOf(e)
	var out gpu.Output
	once := func() {
		if err := e.Enqueue(step); err != nil {
			b.Fatal(err)
		}
		if err := e.Await(b.Context(), &out); err != nil {
			b.Fatal(err)
		}
	}
	for range 3 {
		once()
	}
	n := 0
	begin := time.Now()
	for b.Loop() {
		once()
		n++
	}
	mean := time.Since(begin) / time.Duration(n)
	b.ReportMetric(float64(mean)/float64(d.Floor(step)), "x-floor")
}

// floorOf is the floor of an engine's steps on an H200.
func floorOf(e *Engine) *gpu.Roofline { return gpu.NewRoofline(e.cfg.Geometry, gpu.H200, 1, 2) }

func BenchmarkDecode(b *testing.B) {
	e := benchEngine(b, "llama-3.1-8b")
	for _, c := range decodePoints {
		b.Run(fmt.Sprintf("%dx%d", c[0], c[1]), func(b *testing.B) { benchStep(b, e, stepOf(c[0], 1, c[1]-1)) })
	}
}

func BenchmarkPrefill(b *testing.B) {
	e := benchEngine(b, "llama-3.1-8b")
	for _, c := range prefillPoints {
		if c[0]*c[1] <= 8192 {
			b.Run(fmt.Sprintf("%dx%d+%d", c[0], c[1], c[2]), func(b *testing.B) { benchStep(b, e, stepOf(c[0], c[1], c[2])) })
		}
	}
}

// BenchmarkCommands times each kind of command of a step, those of all layers one after the other, so that none finds its data in a cache, and all kinds of a layer together.
func BenchmarkCommands(b *testing.B) {
	e := benchEngine(b, "llama-3.1-8b")
	steps := map[string]*gpu.Step{"1x1024": stepOf(1, 1, 1023), "1x4096": stepOf(1, 1, 4095), "4x128": stepOf(4, 1, 127), "64x1024": stepOf(64, 1, 1023), "16x4096": stepOf(16, 1, 4095), "64x4096": stepOf(64, 1, 4095), "256x1024": stepOf(256, 1, 1023), "prefill 1x2048": stepOf(1, 2048, 0)}
	for _, name := range []string{"1x1024", "1x4096", "4x128", "16x4096", "64x1024", "64x4096", "256x1024", "prefill 1x2048"} {
		step := steps[name]
		var out gpu.Output
		if err := e.Enqueue(step); err != nil { // brings the step structure to the device
			b.Fatal(err)
		}
		if err := e.Await(b.Context(), &out); err != nil {
			b.Fatal(err)
		}
		list := &builder{m: e.machine, functions: e.functions, gemms: e.gemms}
		e.body(list, step.Tokens(), len(step.Rows))
		e.tail(list, step.Tokens(), len(step.Rows))
		if list.err != nil {
			b.Fatal(list.err)
		}
		var kinds []string
		of := map[string]*commands{}
		const all = "all of a layer"
		of[all] = &commands{}
		layers := e.cfg.Geometry.Layers
		for i, purpose := range list.names {
			if _, after, layer := strings.Cut(purpose, ": "); layer {
				purpose = after
				of[all].list, of[all].names = append(of[all].list, list.list[i]), append(of[all].names, purpose)
			}
			if of[purpose] == nil {
				of[purpose] = &commands{}
				kinds = append(kinds, purpose)
			}
			of[purpose].list, of[purpose].names = append(of[purpose].list, list.list[i]), append(of[purpose].names, purpose)
		}
		for _, kind := range append(kinds, all) {
			if kind == "ids to the host" {
				continue
			}
			b.Run(name+"/"+strings.ReplaceAll(kind, " ", "_"), func(b *testing.B) {
				best := benchGraph(b, e, *of[kind])
				count := len(of[kind].list)
				if kind == all {
					count = layers
				}
				b.ReportMetric(float64(best.Nanoseconds())/1e3/float64(count), "us/command")
			})
		}
	}
}

// benchGraph is the shortest time of ten runs of commands in a graph, one after the other, for one of them.
func benchGraph(b *testing.B, e *Engine, list commands) time.Duration {
	b.Helper()
	graph, err := e.machine.capture(list, none)
	if err != nil {
		b.Fatal(err)
	}
	p, err := (&builder{m: e.machine, commands: graph}).build()
	if err != nil {
		b.Fatal(err)
	}
	defer p.free()
	once := func() {
		if err := p.run(e.machine); err != nil {
			b.Fatal(err)
		}
	}
	once()
	if err := e.machine.synchronize(); err != nil {
		b.Fatal(err)
	}
	const rounds = 10
	best := time.Hour
	for b.Loop() {
		begin := time.Now()
		for range rounds {
			once()
		}
		if err := e.machine.synchronize(); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(begin)/rounds)
	}
	return best
}
