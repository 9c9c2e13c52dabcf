package artifact

// SchemaVersion is the version of rank and merged documents.
const SchemaVersion = 2

// Rank is the document that one DP rank writes.
type Rank struct {
	SchemaVersion     int              `json:"schema_version"`
	KVWarm            *KVWarm          `json:"kvwarm,omitempty"`
	ArtifactType      string           `json:"artifact_type"` // rank
	Status            string           `json:"status"`        // complete, partial or failed
	Valid             bool             `json:"valid"`
	Usable            bool             `json:"usable"`
	StopReason        *string          `json:"stop_reason"`
	TimingValid       bool             `json:"timing_valid"`
	RunID             string           `json:"run_id"` // 32 hexadecimal digits, fresh per launch
	GridDigest        *string          `json:"grid_digest"`
	Timing            RunTiming        `json:"timing"`
	DP                DP               `json:"dp"`
	Synchronization   Synchronization  `json:"synchronization"`
	Coverage          Coverage         `json:"coverage"`
	Config            Config           `json:"config"`
	Limits            RunLimits        `json:"limits"`
	MeasurementPolicy Policy           `json:"measurement_policy"`
	SyntheticPrompts  SyntheticPrompts `json:"synthetic_prompts"`
	Capacity          RunCapacity      `json:"capacity"`
	Cudagraph         RunGraph         `json:"cudagraph"`
	RecurrentState    RecurrentState   `json:"recurrent_state"`
	Protocol          Protocol         `json:"measurement_protocol"`
	Ledger            Ledger           `json:"warmup_evidence"`
	Engine            *Engine          `json:"engine,omitempty"`
	Results           []Result         `json:"results"`
	Groups            []Group          `json:"iteration_groups"`
	Skipped           []Skipped        `json:"skipped_points"`
	MissingPhases     []string         `json:"missing_phases"`
	Error             *string          `json:"error"`
	FPMRun            any              `json:"fpmrun,omitempty"` // this project's own evidence: launch, host, device
}

// KVWarm describes the decode KV warm-up.
type KVWarm struct {
	Enabled            bool        `json:"enabled"`
	WarmEligible       *bool       `json:"warm_eligible"`
	SkipReason         *string     `json:"skip_reason"` // null exactly when eligible
	Dataset            *TextSource `json:"dataset"`     // null without a text
	Stages             []KVStage   `json:"stages"`
	PointsRealKV       int         `json:"points_real_kv"`
	PointsFakeFallback int         `json:"points_fake_fallback"`
	GiantKVThreshold   int         `json:"giant_kv_threshold"`
	GiantKVRepeats     int         `json:"giant_kv_repeats"`
}

// KVStage is one attempt at computing the chains that decode points of a batch size borrow. A failed one says why; the points then run
// over synthetic KV on all ranks.
type KVStage struct {
	Batch         int    `json:"batch"`
	Depth         int    `json:"depth,omitempty"` // tokens in each chain
	BuildSeconds  *Float `json:"build_seconds,omitempty"`
	Failed        bool   `json:"failed,omitempty"`
	Vanished      int    `json:"vanished,omitempty"`       // chains whose blocks were no longer cached
	PoolShortfall int    `json:"pool_shortfall,omitempty"` // KV blocks that were missing
	SoftTimeout   bool   `json:"soft_timeout,omitempty"`   // the run's time was over
	GroupFallback bool   `json:"group_fallback,omitempty"` // another rank failed
}

// RunTiming is the run on this rank's own clocks.
type RunTiming struct {
	StartedAt   *string `json:"started_at"` // RFC 3339, UTC
	CompletedAt *string `json:"completed_at"`
	Elapsed     Float   `json:"benchmark_elapsed_seconds"`
	Measured    Float   `json:"measured_iteration_seconds"` // sum of the groups' wall times
}

// DP is the rank's place among the data-parallel ranks.
type DP struct {
	Rank int `json:"rank"`
	Size int `json:"size"`
}

// Synchronization says how the DP ranks kept in step.
type Synchronization struct {
	Enabled         bool `json:"enabled"`
	CoordinatorRank int  `json:"coordinator_rank"`
	Port            *int `json:"port"`
}

// Coverage counts real points.
type Coverage struct {
	Expected  int `json:"expected_points"`
	Completed int `json:"completed_points"`
	Skipped   int `json:"skipped_points"`
}

// Config is the benchmark's configuration. It holds no path but output_path.
type Config struct {
	Mode                   string `json:"mode"`
	WarmupIterations       int    `json:"warmup_iterations"`
	OutputPath             string `json:"output_path"`
	Timeout                Float  `json:"timeout"` // seconds
	PrefillNewTokenSamples int    `json:"prefill_max_new_token_samples"`
	PrefillKVReadSamples   int    `json:"prefill_max_kv_read_token_samples"`
	DecodeKVReadSamples    int    `json:"decode_max_kv_read_token_samples"`
	DecodeBatchSizeSamples int    `json:"decode_max_batch_size_samples"`
	PrefixBatchSizeSamples int    `json:"prefix_max_batch_size_samples"`
	CollectImbalanced      bool   `json:"collect_imbalanced"`
	RandomizeKDAState      bool   `json:"randomize_kda_state"`
}

// RunLimits is what this rank's engine could hold.
type RunLimits struct {
	MaxNumScheduledTokens  int `json:"max_num_scheduled_tokens"`
	MaxNumRunningReqs      int `json:"max_num_running_reqs"`
	MaxModelLen            int `json:"max_model_len"`
	BlockSize              int `json:"block_size"`
	NumGPUBlocks           int `json:"num_gpu_blocks"`
	ConfiguredMaxBatchSize int `json:"configured_max_batch_size"`
	FeasibleMaxBatchSize   int `json:"feasible_max_batch_size"`
}

// Policy names what a retained number is.
type Policy struct {
	Decode  string `json:"decode"`
	Prefill string `json:"prefill"`
}

// SyntheticPrompts says how token ids were made.
type SyntheticPrompts struct {
	Mode      string `json:"mode"` // salted_random or zeros
	VocabSize int    `json:"vocab_size"`
}

// RunCapacity is the group's agreed envelope, null for a group of one.
type RunCapacity struct {
	Common *Capacity `json:"common"`
}

// Capacity is the envelope that a DP group agrees on: the minimum of each number, provided that all ranks have the
// same invariants.
type Capacity struct {
	MaxModelLen     int    `json:"max_model_len"`
	MaxTokens       int    `json:"max_num_scheduled_tokens"`
	MaxRunning      int    `json:"max_num_running_reqs"`
	Blocks          int    `json:"usable_blocks_without_watermark"`
	BlocksWatermark int    `json:"usable_blocks_with_watermark"`
	Invariants      string `json:"grid_invariants_digest"`
	KVWarmEligible  bool   `json:"kvwarm_eligible"`
}

// RunGraph is the graph dispatch that the grid was planned with.
type RunGraph struct {
	Mode         string `json:"mode"`
	PrefillMode  string `json:"prefill_mode"`
	DecodeMode   string `json:"decode_mode"`
	MaxCapture   *int   `json:"max_capture_size"`
	Captures     []int  `json:"capture_sizes"`
	PrefillSizes []int  `json:"prefill_capture_sizes"`
	DecodeSizes  []int  `json:"decode_capture_sizes"`
}

// RecurrentState says what was done to recurrent layers' state: nothing, since no supported model has any.
type RecurrentState struct {
	Initialization string   `json:"initialization"`
	Policy         *string  `json:"policy"`
	UniformBound   *float64 `json:"uniform_bound"`
}

// Result is one measured point of this rank.
type Result struct {
	Point        Point  `json:"point"`
	KVSeedRegime string `json:"kv_seed_regime"`
	FPMs         []FPM  `json:"fpms"` // exactly one
}

// Group is one measured point over all DP ranks; the same in every rank's document.
type Group struct {
	BenchmarkID     int          `json:"benchmark_id"`
	Point           Point        `json:"point"`
	ExpectedDPRanks []int        `json:"expected_dp_ranks"`
	Complete        bool         `json:"complete"`
	WallTime        Float        `json:"wall_time"` // the slowest rank's
	RankResults     []RankResult `json:"rank_results"`
}

// RankResult is one rank's part of a group.
type RankResult struct {
	DPRank int   `json:"dp_rank"`
	FPMs   []FPM `json:"fpms"` // exactly one
}

// Skipped is a point that could not be measured.
type Skipped struct {
	Point        Point  `json:"point"`
	KVSeedRegime string `json:"kv_seed_regime"`
	Reason       string `json:"reason"`
}
