package bench

import (
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// Setup is what the provenance is made of, beside what the engine reports.
type Setup struct {
	Info       gpu.Info
	Geometry   *model.Geometry
	Model      string // name the model was asked for by
	WeightSeed *int   // nil unless the weights are random
	DPSize     int
	Sizes      artifact.Sizes
	Version    string // of this program
}

// expertBackend names the exchange of tokens between the holders of experts.
const expertBackend = "pairwise"

// Provenance is the engine block of the rank documents: what the engine believed when it started. A part that cannot be read ends the
// block with capture_error, and keeps the parts before it: a run is not lost for want of its description.
func Provenance(c *Config, u Setup) (e artifact.Engine) {
	part := "versions"
	defer func() {
		if cause := recover(); cause != nil {
			e.CaptureError = fmt.Sprintf("%s: %v", part, cause)
		}
	}()
	for _, p := range []struct {
		name    string
		capture func()
	}{
		{"versions", func() { e.Versions = &artifact.EngineVersions{FPMRun: u.Version, Engine: u.Info.Engine} }},
		{"attention", func() {
			e.Attention = &artifact.EngineAttention{BackendPerKind: map[string]string{}, Resolution: artifact.PendingProbe}
		}},
		{"kv_cache", func() { e.KVCache = kvCacheBlock(c, u) }},
		{"quantization", func() { e.Quantization = &artifact.EngineQuantization{} }},
		{"scheduler", func() {
			e.Scheduler = &artifact.EngineScheduler{MaxNumBatchedTokens: c.MaxBatchedTokens, MaxNumSeqs: c.MaxSeqs, AsyncScheduling: u.Info.Async, EnableChunkedPrefill: true}
		}},
		{"model", func() { e.Model = modelBlock(u) }},
		{"parallel", func() { e.Parallel = parallelBlock(c, u) }},
		{"graph", func() {
			e.Graph = &artifact.EngineGraph{CudagraphMode: c.Graph.Mode, CudagraphCaptureSizes: append([]int{}, c.Graph.Sizes...), Resolution: "pre_resolution"}
		}},
	} {
		part = p.name
		p.capture()
	}
	e.Resolution = artifact.PendingProbe
	return e
}

func kvCacheBlock(c *Config, u Setup) *artifact.EngineKVCache {
	return &artifact.EngineKVCache{
		CacheDType: u.Info.KVDType, BlockSize: c.BlockSize, EnablePrefixCaching: c.PrefixCaching, Groups: kvGroups(c, u), KVCacheLayout: u.Info.KVLayout,
	}
}

func modelBlock(u Setup) *artifact.EngineModel {
	source := "safetensors"
	if u.WeightSeed != nil {
		source = "random"
	}
	return &artifact.EngineModel{
		DType: u.Info.DType, ModelType: u.Geometry.ModelType, Architectures: []string{u.Geometry.Architecture}, Model: u.Model,
		WeightSource: source, WeightSeed: u.WeightSeed,
	}
}

func parallelBlock(c *Config, u Setup) *artifact.EngineParallel {
	var all2all *string
	if c.ExpertParallel {
		name := expertBackend
		all2all = &name
	}
	return &artifact.EngineParallel{
		DataParallelSize: u.DPSize, TensorParallelSize: u.Sizes.TP, PipelineParallelSize: u.Sizes.PP,
		PrefillContextParallelSize: u.Sizes.PCP, DecodeContextParallelSize: 1, EnableExpertParallel: c.ExpertParallel, All2AllBackend: all2all, EPLBConfig: map[string]any{},
	}
}
