package artifact

// FPM is one forward-pass-metrics record, version 1: what one iteration scheduled, what waited, and how long it
// took.
type FPM struct {
	Version     int       `json:"version"`
	WorkerID    string    `json:"worker_id"`
	DPRank      int       `json:"dp_rank"`
	CounterID   int       `json:"counter_id"` // in an artifact: the point's benchmark_id
	WallTime    Float     `json:"wall_time"`  // seconds
	Scheduled   Scheduled `json:"scheduled_requests"`
	Queued      Queued    `json:"queued_requests"`
	Sample      *Sample   `json:"benchmark_sample,omitempty"`      // raw samples only
	Measurement *Evidence `json:"benchmark_measurement,omitempty"` // retained records only
	MedianOf    *int      `json:"kvwarm_giant_median_of,omitempty"`
	Steady      *bool     `json:"kvwarm_steady_sample,omitempty"`
}

// Scheduled counts what an iteration computed. Tokens are sums over requests; variances are of the population.
type Scheduled struct {
	NumPrefillRequests int   `json:"num_prefill_requests"`
	SumPrefillTokens   int   `json:"sum_prefill_tokens"`    // tokens computed now
	VarPrefillLength   Float `json:"var_prefill_length"`    // of whole prompt lengths
	SumPrefillKVTokens int   `json:"sum_prefill_kv_tokens"` // tokens read from the cache or earlier chunks
	NumDecodeRequests  int   `json:"num_decode_requests"`
	SumDecodeKVTokens  int   `json:"sum_decode_kv_tokens"`
	VarDecodeKVTokens  Float `json:"var_decode_kv_tokens"`
}

// Queued counts what waited.
type Queued struct {
	NumPrefillRequests int   `json:"num_prefill_requests"`
	SumPrefillTokens   int   `json:"sum_prefill_tokens"`
	VarPrefillLength   Float `json:"var_prefill_length"`
	NumDecodeRequests  int   `json:"num_decode_requests"`
	SumDecodeKVTokens  int   `json:"sum_decode_kv_tokens"`
	VarDecodeKVTokens  Float `json:"var_decode_kv_tokens"`
}

// Spread accumulates a population variance in one pass (Welford 1962).
type Spread struct {
	n    int
	mean float64
	m2   float64
}

// Add takes in one value.
func (s *Spread) Add(v int) {
	s.n++
	delta := float64(v) - s.mean
	s.mean += delta / float64(s.n)
	s.m2 += delta * (float64(v) - s.mean)
}

// Variance divides by the number of values; it is 0 without any.
func (s *Spread) Variance() Float {
	if s.n == 0 {
		return 0
	}
	return Float(s.m2 / float64(s.n))
}
