package artifact

// Engine is the provenance of the engine that ran: what it believed when it started. It holds nothing that differs
// between the ranks or launches of one build, but for parallel.data_parallel_rank.
type Engine struct {
	Attention    *EngineAttention    `json:"attention,omitempty"`
	KVCache      *EngineKVCache      `json:"kv_cache,omitempty"`
	Quantization *EngineQuantization `json:"quantization,omitempty"`
	Scheduler    *EngineScheduler    `json:"scheduler,omitempty"`
	Model        *EngineModel        `json:"model,omitempty"`
	Parallel     *EngineParallel     `json:"parallel,omitempty"`
	Speculative  *struct{}           `json:"speculative"` // null: no speculative decoding
	Graph        *EngineGraph        `json:"graph,omitempty"`
	Versions     *EngineVersions     `json:"versions,omitempty"`
	Resolved     *struct{}           `json:"resolved"`             // null until the worker probe
	Resolution   string              `json:"resolution,omitempty"` // pending_worker_probe; "" when the capture failed
	CaptureError string              `json:"capture_error,omitempty"`
}

// PendingProbe is the resolution of everything that only the worker probe can tell.
const PendingProbe = "pending_worker_probe"

// EngineAttention is the attention part of the provenance.
type EngineAttention struct {
	BackendRequested           *string           `json:"backend_requested"` // null: automatic
	BackendPerKind             map[string]string `json:"backend_per_kind"`
	MLAPrefillBackendRequested *string           `json:"mla_prefill_backend_requested"`
	FlashAttnVersion           *int              `json:"flash_attn_version"`
	UseTRTLLMAttention         *bool             `json:"use_trtllm_attention"`
	IndexerKVDType             *string           `json:"indexer_kv_dtype"`
	IndexerKVDTypeConfigured   *string           `json:"indexer_kv_dtype_configured"`
	BackendResolved            *string           `json:"backend_resolved"`
	MLAPrefillBackendResolved  *string           `json:"mla_prefill_backend_resolved"`
	Resolution                 string            `json:"resolution"`
}

// EngineKVCache describes the KV cache.
type EngineKVCache struct {
	CacheDType          string    `json:"cache_dtype"`
	BlockSize           int       `json:"block_size"`
	EnablePrefixCaching bool      `json:"enable_prefix_caching"`
	Groups              []KVGroup `json:"groups"`
	KVCacheLayout       string    `json:"kv_cache_layout,omitempty"`
}

// KVGroup is a set of layers with one cache shape. Windows are in tokens; null means the whole context.
type KVGroup struct {
	Type               string `json:"type"`
	DType              string `json:"dtype"`
	HeadSize           int    `json:"head_size"`
	NumKVHeads         int    `json:"num_kv_heads"`
	BlockSize          int    `json:"block_size"`
	SlidingWindow      *int   `json:"sliding_window"`
	AttentionChunkSize *int   `json:"attention_chunk_size"`
	NonCausal          bool   `json:"non_causal"`
}

// EngineQuantization describes weight quantization; all null without any.
type EngineQuantization struct {
	Method           *string        `json:"method"`
	CheckpointConfig map[string]any `json:"checkpoint_config"`
	QuantConfigClass *string        `json:"quant_config_class"`
}

// EngineScheduler is the configured scheduler.
type EngineScheduler struct {
	MaxNumBatchedTokens       int  `json:"max_num_batched_tokens"`
	MaxNumSeqs                int  `json:"max_num_seqs"`
	AsyncScheduling           bool `json:"async_scheduling"`
	EnableChunkedPrefill      bool `json:"enable_chunked_prefill"`
	LongPrefillTokenThreshold int  `json:"long_prefill_token_threshold"`
}

// EngineModel is the model as it was configured.
type EngineModel struct {
	DType         string   `json:"dtype"`
	ModelType     string   `json:"model_type"`
	Architectures []string `json:"architectures"`
	Model         string   `json:"model"`
	WeightSource  string   `json:"weight_source"` // random or safetensors
	WeightSeed    *int     `json:"weight_seed"`   // null unless the weights are random
}

// EngineParallel is the topology. DataParallelRank is null in a merged document.
type EngineParallel struct {
	DataParallelSize           int            `json:"data_parallel_size"`
	DataParallelRank           *int           `json:"data_parallel_rank"`
	TensorParallelSize         int            `json:"tensor_parallel_size"`
	PipelineParallelSize       int            `json:"pipeline_parallel_size"`
	PrefillContextParallelSize int            `json:"prefill_context_parallel_size"`
	DecodeContextParallelSize  int            `json:"decode_context_parallel_size"`
	EnableExpertParallel       bool           `json:"enable_expert_parallel"`
	EnableEPLB                 bool           `json:"enable_eplb"`
	All2AllBackend             *string        `json:"all2all_backend"`
	EPLBConfig                 map[string]any `json:"eplb_config"`
}

// EngineGraph is the configured graph dispatch.
type EngineGraph struct {
	CudagraphMode         string `json:"cudagraph_mode"`
	CudagraphCaptureSizes []int  `json:"cudagraph_capture_sizes"`
	Resolution            string `json:"resolution"` // pre_resolution
}

// EngineVersions names the software. The four keys that readers know are null here, since none of those programs
// ran.
type EngineVersions struct {
	VLLM            *string `json:"vllm"`
	VLLMBuildCommit *string `json:"vllm_build_commit"`
	Dynamo          *string `json:"dynamo"`
	Python          *string `json:"python"`
	FPMRun          string  `json:"fpmrun"`
	Engine          string  `json:"engine"` // cpu, cuda or sim
}
