package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/cuda"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/rank"
	"github.com/fpmrun/fpmrun/rank/env"
)

// device is the GPU that a rank uses, and how much of it.
type device struct {
	cuda.Device
	libraries   *cuda.Libraries
	ordinal     int // among the visible GPUs
	sharers     int // ranks that use it, this one among them
	free        int64
	utilization float64
}

// budget is how many bytes of the GPU one rank may take.
func (d *device) budget() int64 {
	used := d.Memory - d.free
	return int64(float64(d.Memory)*d.utilization/float64(d.sharers)) - used
}

// choice is what --engine came to.
type choice struct {
	engine  string
	device  *device // nil for an engine that uses none
	instead error   // why auto does not take the CUDA engine
}

// chooseEngine resolves --engine for a rank.
func (o *options) chooseEngine(getenv func(string) string, g *model.Geometry, tp int, id rank.Identity) (choice, error) {
	if o.engine.Value != "auto" && o.engine.Value != cuda.Name {
		return choice{engine: o.engine.Value}, nil
	}
	d, err := o.findDevice(getenv, id)
	if err == nil && o.engine.Value == "auto" {
		err = runsOnGPU(g, tp)
	}
	switch {
	case err == nil:
		return choice{engine: cuda.Name, device: d}, nil
	case o.engine.Value == cuda.Name:
		return choice{}, fmt.Errorf("--engine cuda: %w; --engine cpu runs here", err)
	}
	return choice{engine: "cpu", instead: err}, nil
}

// runsOnGPU reports what the CUDA engine does not run.
func runsOnGPU(g *model.Geometry, tp int) error {
	if tp > 1 {
		return fmt.Errorf("tensor parallel over %d ranks is not there on GPUs", tp)
	}
	return cuda.Check(g)
}

// findDevice is the GPU of a rank: the one that the launcher gave it, else the one with its local rank.
func (o *options) findDevice(getenv func(string) string, id rank.Identity) (*device, error) {
	if !(o.utilization > 0 && o.utilization <= 1) {
		return nil, fmt.Errorf("--gpu-memory-utilization %g: want a part of the memory, more than 0 and at most 1", o.utilization)
	}
	libraries, err := cuda.Open(getenv)
	if err != nil {
		return nil, err
	}
	devices, err := cuda.Devices()
	if err != nil {
		return nil, err
	}
	d := &device{libraries: libraries, ordinal: id.LocalRank, sharers: 1, utilization: o.utilization}
	given := getenv(env.KeyLocalGPU) != ""
	if given {
		d.ordinal = 0
		if n, err := strconv.Atoi(getenv(env.KeyGPUSharers)); err == nil && n > 0 {
			d.sharers = n
		}
	}
	switch {
	case len(devices) == 0:
		return nil, errors.New("no GPU is visible (CUDA_VISIBLE_DEVICES)")
	case !given && id.LocalSize > len(devices):
		return nil, fmt.Errorf("%d ranks on this host and %d visible GPUs; fpmrun --gpus-per-rank 1 --oversubscribe-gpu lets ranks share them", id.LocalSize, len(devices))
	}
	d.Device = devices[d.ordinal]
	d.free, err = cuda.Free(d.ordinal)
	return d, err
}

// pool is the number of KV blocks that a device has room for beside an engine, and what the engine needs.
func (d *device) pool(cfg *gpu.Config) (int, cuda.Memory) {
	need := cuda.Need(cfg, d.Multiprocessors)
	return int(max(0, (d.budget()-need.Fixed())/need.Block)), need
}

// room refuses a model or a pool that the device cannot hold, before anything is allocated.
func (d *device) room(g *model.Geometry, cfg *gpu.Config) error {
	if err := cuda.Check(g); err != nil {
		return err
	}
	most, need := d.pool(cfg)
	of := fmt.Sprintf("%.1f GiB for this rank (%s, %.1f GiB, %.1f GiB of it free; --gpu-memory-utilization %g, %d ranks on it)",
		gib(d.budget()), d.Name, gib(d.Memory), gib(d.free), d.utilization, d.sharers)
	switch {
	case most < 2:
		return fmt.Errorf("model %s needs %.1f GiB for weights and %.1f GiB for activations, of %s; choose a smaller model, or lower --max-num-batched-tokens or --max-num-seqs",
			g.Name, gib(need.Weights), gib(need.Activations), of)
	case cfg.Blocks > most:
		return fmt.Errorf("--kv-blocks %d are %.1f GiB; beside %.1f GiB of weights and %.1f GiB of activations there is room for %d blocks, of %s",
			cfg.Blocks, gib(int64(cfg.Blocks)*need.Block), gib(need.Weights), gib(need.Activations), most, of)
	}
	return nil
}
