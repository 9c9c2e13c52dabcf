package artifact

// Evidence is what a retained record carries about how it came to be (benchmark_measurement).
type Evidence struct {
	SchemaVersion   int         `json:"schema_version"` // 1
	PointKey        string      `json:"point_key"`      // of the recorded point
	DPRank          int         `json:"dp_rank"`
	Prompts         Prompts     `json:"prompts"`
	Preparation     Preparation `json:"preparation"`
	ExpectedSamples int         `json:"expected_internal_samples"`
	Raw             []FPM       `json:"raw_fpms"` // every record before the reduction, in order
	Estimate        Estimate    `json:"estimate"`
}

// Prompts is the evidence of what a batch was fed with.
type Prompts struct {
	Status   string       `json:"status"` // recorded or unavailable
	SHA256   *string      `json:"sha256"`
	Requests []PromptHash `json:"requests"`
}

// Preparation places a measurement in its run.
type Preparation struct {
	GridDigest            string `json:"grid_digest"`
	CompletedPointsBefore int    `json:"completed_points_before"` // position in results
	KVSeedRegime          string `json:"kv_seed_regime"`
	WarmupRecordsBefore   *int   `json:"warmup_records_before"` // ledger length; null when there is no ledger
}

// KV seed regimes.
const (
	RegimeNotApplicable = "not_applicable" // prefill without a cached prefix
	RegimeFakePrefix    = "fake_prefix"    // prefill over prefix blocks that were never computed
	RegimeRealPrefix    = "real_prefix"    // prefill over prefix blocks that an earlier prefill computed
	RegimeLegacy        = "legacy"         // decode with the KV warm-up switched off
	RegimeRealKV        = "real_kv"        // decode over prefixes that were computed from text
	RegimeFakeFallback  = "fake_fallback"  // decode over synthetic KV of a point that real KV was meant for
	RegimeUnstamped     = "unstamped"      // never injected
	RegimeSkip          = "skip:"          // decode whose KV warm-up was refused; the reason follows
)

// Ledger is the preparation ledger of a rank (warmup_evidence).
type Ledger struct {
	Status  string         `json:"status"` // recorded or unavailable
	Records []LedgerRecord `json:"records"`
	Reason  string         `json:"reason,omitempty"` // why it is unavailable
}

// Kinds of preparation.
const (
	WarmupGlobal     = "global"
	WarmupEagerShape = "eager_shape"
	WarmupRealPrefix = "real_prefix_seed"
	WarmupRealShape  = "real_prefix_shape"
)

// LedgerRecord is one attempt at preparing something before or between points.
type LedgerRecord struct {
	Kind                  string           `json:"kind"`
	RequestedShape        any              `json:"requested_shape"` // ShapeRequest, or the Point of a replica
	Status                string           `json:"status"`          // running, completed or failed
	ForwardIndexStart     *int             `json:"forward_index_start"`
	ForwardIndexEnd       *int             `json:"forward_index_end"` // exclusive
	CompletedPointsBefore int              `json:"completed_points_before"`
	ObservedForwardCount  int              `json:"observed_forward_count"`
	FirstScheduled        *Scheduled       `json:"first_scheduled_requests"`
	LastScheduled         *Scheduled       `json:"last_scheduled_requests"`
	Validation            LedgerValidation `json:"validation"`
}

// ShapeRequest is the requested shape of a preparation that is not a point.
type ShapeRequest struct {
	PromptLengths []int `json:"prompt_lengths"`
}

// LedgerValidation says whether a preparation had the wanted shape. Only replicas are checked, group-wide.
type LedgerValidation struct {
	Status       string  `json:"status"` // not_performed, passed or failed
	Reason       *string `json:"reason"`
	Scope        string  `json:"scope,omitempty"` // attention_dp_group for replicas
	FailedDPRank *int    `json:"failed_dp_rank,omitempty"`
}
