package artifact

// Protocol is the shared description of how every point was measured (measurement_protocol). All ranks of a
// run have the same one.
type Protocol struct {
	SchemaVersion          int                 `json:"schema_version"`
	ContentIdentity        string              `json:"content_identity"`
	ContentSeed            string              `json:"content_seed"`
	SyntheticContent       string              `json:"synthetic_content"`
	SyntheticPoolTag       string              `json:"synthetic_pool_tag"`
	PromptHashEncoding     string              `json:"prompt_hash_encoding"`
	IndependentRepetitions int                 `json:"independent_repetitions"`
	TimingMetric           string              `json:"timing_metric"`
	InputEvidenceScope     string              `json:"input_evidence_scope"`
	Unobserved             []string            `json:"unobserved"`
	Preparation            ProtocolPreparation `json:"preparation"`
	ExecutionEvidence      ExecutionContract   `json:"execution_evidence"`
}

// ProtocolPreparation is the requested preparation.
type ProtocolPreparation struct {
	WarmupIterations   int  `json:"warmup_iterations"`
	PrefillRealSeed    bool `json:"prefill_real_seed"`
	DecodeRealKVWarmup bool `json:"decode_real_kv_warmup"`
	GiantKVThreshold   int  `json:"giant_kv_threshold"`
	GiantKVRepeats     int  `json:"giant_kv_repeats"`
}

// ExecutionContract says where the evidence of single steps is.
type ExecutionContract struct {
	SchemaVersion     int    `json:"schema_version"`
	SampleField       string `json:"sample_field"`
	WarmupField       string `json:"warmup_field"`
	ForwardIndexScope string `json:"forward_index_scope"`
	TimingClock       string `json:"timing_clock"`
	CudagraphSource   string `json:"cudagraph_source"`
	WarmupScope       string `json:"warmup_scope"`
}

// executionContract is the one contract that readers know.
var executionContract = ExecutionContract{
	SchemaVersion:     1,
	SampleField:       "benchmark_sample",
	WarmupField:       "warmup_evidence",
	ForwardIndexScope: "rank_process",
	TimingClock:       "process_local_monotonic",
	CudagraphSource:   "ModelRunnerOutput.cudagraph_stats",
	WarmupScope:       "request_completion_and_existing_shape_validation",
}

// unobserved is what no evidence in the artifact establishes.
var unobserved = []string{
	"sampled_continuation_token_ids",
	"kv_cache_tensors",
	"recurrent_state_tensors",
	"execution_history_equivalence",
	"decode_real_kv_chain_warmup_history",
	"warmup_graph_kernel_and_cache_equivalence",
}

// NewProtocol describes a run with the given content and preparation.
func NewProtocol(content *Content, preparation ProtocolPreparation) Protocol {
	return Protocol{
		SchemaVersion:          1,
		ContentIdentity:        "coordinate_rank_slot_v1",
		ContentSeed:            content.Seed,
		SyntheticContent:       content.Mode(),
		SyntheticPoolTag:       content.PoolTag,
		PromptHashEncoding:     "uint32_le",
		IndependentRepetitions: 1,
		TimingMetric:           "scheduler_wall_time",
		InputEvidenceScope:     "injected_prompt_token_ids",
		Unobserved:             unobserved,
		Preparation:            preparation,
		ExecutionEvidence:      executionContract,
	}
}
