package main

import (
	"fmt"

	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/cpu"
	"github.com/fpmrun/fpmrun/gpu/cuda"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/gpu/sim"
)

// engineDefaults are the limits of an engine where the command line gives none.
type engineDefaults struct{ maxSeqs, maxTokens, maxModelLen int }

var defaultsOf = map[string]engineDefaults{
	"cpu": {maxSeqs: 8, maxTokens: 256, maxModelLen: 512},
	"sim": {maxSeqs: 256, maxTokens: 8192, maxModelLen: 131072},

	cuda.Name: {maxSeqs: 256, maxTokens: 8192, maxModelLen: 131072},
}

// ownType is the type in which an engine works.
var ownType = map[string]string{"cpu": "float32", cuda.Name: "bfloat16"}

// limits fills in the limits that were not given and reports those that the model cannot hold.
func (o *options) limits(engine string, g *model.Geometry, tp int, d *device) error {
	defaults := defaultsOf[engine]
	fill := func(c *flagvalue.Count, value int) {
		if !c.Given {
			c.Value = value
		}
	}
	fill(&o.maxSeqs, defaults.maxSeqs)
	fill(&o.maxTokens, defaults.maxTokens)
	fill(&o.maxModelLen, min(defaults.maxModelLen, g.MaxPositions))
	if o.maxModelLen.Value > g.MaxPositions {
		return fmt.Errorf("--max-model-len %d exceeds the model's max_position_embeddings %d", o.maxModelLen.Value, g.MaxPositions)
	}
	perSequence := (o.maxModelLen.Value + o.blockSize.Value - 1) / o.blockSize.Value
	needed := o.maxSeqs.Value * perSequence
	blocks := needed + needed/99 + 2 // the null block and the watermark of 1 % beside what the requests need
	if engine == sim.Name {
		blocks = max(2, min(blocks, sim.Blocks(g, o.blockSize.Value, tp)))
	}
	if d != nil && cuda.Check(g) == nil {
		blocks, _ = d.pool(&gpu.Config{Geometry: g, BlockSize: o.blockSize.Value, MaxBatchedTokens: o.maxTokens.Value, MaxSeqs: o.maxSeqs.Value, MaxModelLen: o.maxModelLen.Value, Ceilings: o.roofline})
		blocks = max(2, blocks)
	}
	fill(&o.kvBlocks, blocks)
	return nil
}

// graph is the graph dispatch of an engine.
func (o *options) graph(engine string) (gpu.GraphConfig, error) {
	g := gpu.GraphConfig{Mode: o.graphMode.Value, Sizes: o.captureSizes}
	if engine != sim.Name && engine != cuda.Name {
		if g.Mode != "" && g.Mode != "NONE" {
			return g, fmt.Errorf("--cudagraph-mode %s: the CPU engine has no graphs; drop it or use NONE", g.Mode)
		}
		if len(g.Sizes) > 0 {
			return g, fmt.Errorf("--cudagraph-capture-sizes %s: the CPU engine has no graphs; drop it", o.captureSizes.String())
		}
		return gpu.GraphConfig{Mode: "NONE"}, nil
	}
	if g.Mode == "" {
		g.Mode = "FULL_AND_PIECEWISE"
	}
	if g.Mode != "NONE" && len(g.Sizes) == 0 {
		g.Sizes = captureSizes(min(512, 2*o.maxSeqs.Value))
	}
	return g, g.Validate()
}

// captureSizes is the usual list of capture sizes up to limit: 1, 2, 4, every 8th to 248 and every 16th from 256.
func captureSizes(limit int) []int {
	var list []int
	for _, n := range []int{1, 2, 4} {
		if n <= limit {
			list = append(list, n)
		}
	}
	for n := 8; n <= limit; {
		list = append(list, n)
		if n < 256 {
			n += 8
		} else {
			n += 16
		}
	}
	return list
}

// newEngine builds an engine and makes its weights.
func newEngine(name string, cfg gpu.Config, d *device, noAsync bool) (gpu.Engine, error) {
	var engine gpu.Engine
	var err error
	switch name {
	case sim.Name:
		engine, err = sim.New(cfg)
	case cuda.Name:
		engine, err = cuda.New(cfg, d.libraries, d.ordinal)
	default:
		engine, err = cpu.New(cfg)
	}
	if err == nil && noAsync {
		engine = synchronous{engine}
	}
	return engine, err
}

// synchronous is an engine with one step in flight at most.
type synchronous struct{ gpu.Engine }

// Info implements gpu.Engine.
func (s synchronous) Info() gpu.Info {
	info := s.Engine.Info()
	info.Async, info.Depth = false, 1
	return info
}
