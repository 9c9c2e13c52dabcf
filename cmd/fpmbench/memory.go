package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/fpmrun/fpmrun/gpu/cpu"
	"github.com/fpmrun/fpmrun/gpu/cuda"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/gpu/sim"
)

// valueBytes is the size of one weight or cache value in an engine.
var valueBytes = map[string]int{"cpu": 4, "sim": 2, cuda.Name: 2}

// memory is what one worker of a run holds, in bytes.
func (pl *plan) memory() (weights, pool int64) {
	size, tp := valueBytes[pl.engine], pl.topology.TP
	whole, routed := pl.geometry.Parameters(), routedParameters(pl.geometry)
	if ep := pl.expertRanks(); ep > 0 {
		whole -= routed
		weights = (routed + int64(ep) - 1) / int64(ep) * int64(size)
	}
	weights += whole * int64(size) / int64(tp)
	pool = pl.geometry.KVBytesPerToken(size, tp) * int64(pl.bench.Blocks) * int64(pl.bench.BlockSize)
	return weights, pool
}

// routedParameters is the number of weights of all routed experts.
func routedParameters(g *model.Geometry) int64 {
	if g.Experts == nil {
		return 0
	}
	var n int64
	for _, sparse := range g.Experts.Sparse {
		if sparse {
			n += 3 * int64(g.Hidden) * int64(g.Experts.Intermediate) * int64(g.Experts.Count)
		}
	}
	return n
}

// fits refuses a model that the engine does not have and a run that the memory cannot hold, before anything is allocated. available is the host's free memory in
// bytes, 0 when it is not known; workers is the number of ranks that share it.
func (pl *plan) fits(available int64, workers int) error {
	weights, pool := pl.memory()
	if pl.engine == "sim" {
		if most := sim.Blocks(pl.geometry, pl.bench.BlockSize, pl.topology.TP); pl.bench.Blocks > most {
			return fmt.Errorf("--kv-blocks %d: beside %.1f GiB of weights the simulated device has room for %d blocks; raise --tp or lower --kv-blocks", pl.bench.Blocks, gib(weights), most)
		}
		return nil
	}
	if pl.device != nil {
		cfg := pl.limits()
		return pl.device.room(pl.geometry, &cfg)
	}
	if err := cpu.Check(pl.geometry, pl.topology.TP, pl.expertRanks()); err != nil {
		return err
	}
	if pl.ceilings {
		weights += cpu.CeilingBytes
	}
	if needed := (weights + pool) * int64(workers); available > 0 && needed > available {
		return fmt.Errorf("%.1f GiB of weights and %.1f GiB of KV pool for each of %d ranks on this host exceed the %.1f GiB of free memory; choose a smaller model, or lower --kv-blocks, --max-num-seqs or --max-model-len",
			gib(weights), gib(pool), workers, gib(available))
	}
	return nil
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// availableMemory is the host's MemAvailable in bytes, or 0 when it cannot be read.
func availableMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			if _, err := fmt.Sscanf(rest, "%d kB", &kib); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
