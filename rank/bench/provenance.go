package bench

import (
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

// Provenance is the engine block of the rank documents: what the engine believed when it started.
func Provenance(c *Config, u Setup) artifact.Engine {
	source := "safetensors"
	if u.WeightSeed != nil {
		source = "random"
	}
	var all2all *string
	if c.ExpertParallel {
		name := expertBackend
		all2all = &name
	}
	return artifact.Engine{
		Attention: &artifact.EngineAttention{BackendPerKind: map[string]string{}, Resolution: artifact.PendingProbe},
		KVCache: &artifact.EngineKVCache{
			CacheDType: u.Info.KVDType, BlockSize: c.BlockSize, EnablePrefixCaching: c.PrefixCaching,
			Groups: kvGroups(c, u), KVCacheLayout: u.Info.KVLayout,
		},
		Quantization: &artifact.EngineQuantization{},
		Scheduler: &artifact.EngineScheduler{
			MaxNumBatchedTokens: c.MaxBatchedTokens, MaxNumSeqs: c.MaxSeqs, AsyncScheduling: u.Info.Async, EnableChunkedPrefill: true,
		},
		Model: &artifact.EngineModel{
			DType: u.Info.DType, ModelType: u.Geometry.ModelType, Architectures: []string{u.Geometry.Architecture}, Model: u.Model,
			WeightSource: source, WeightSeed: u.WeightSeed,
		},
		Parallel: &artifact.EngineParallel{
			DataParallelSize: u.DPSize, TensorParallelSize: u.Sizes.TP, PipelineParallelSize: u.Sizes.PP,
			PrefillContextParallelSize: u.Sizes.PCP, DecodeContextParallelSize: 1, EnableExpertParallel: c.ExpertParallel, All2AllBackend: all2all, EPLBConfig: map[string]any{},
		},
		Graph:      &artifact.EngineGraph{CudagraphMode: c.Graph.Mode, CudagraphCaptureSizes: append([]int{}, c.Graph.Sizes...), Resolution: "pre_resolution"},
		Versions:   &artifact.EngineVersions{FPMRun: u.Version, Engine: u.Info.Engine},
		Resolution: artifact.PendingProbe,
	}
}
