package artifact

import "slices"

// Point types.
const (
	Prefill = "prefill"
	Decode  = "decode"
)

// Sample reasons: why a point is in the grid, and what happened to it at run time.
const (
	ReasonExplicit          = "explicit"
	ReasonCapture           = "capture"
	ReasonPostCapture       = "post_capture"
	ReasonCudagraphDisabled = "cudagraph_disabled"
	ReasonGeometricAxis     = "geometric_axis"
	ReasonEagerTail         = "eager_tail"
	ReasonGeometricTail     = "geometric_tail"
	ReasonEngineLimit       = "engine_limit"
	ReasonEagerWarmup       = "eager_warmup"
	ReasonRealSeed          = "prefill_real_seed"
	ReasonFakePrefix        = "prefill_fake_prefix"
	ReasonContextClamped    = "context_clamped"
	ReasonRealKV            = "kvwarm_real_kv"
	ReasonFakeFallback      = "kvwarm_fake_fallback"
	ReasonOffByBatch        = "giant_fake_off_by_batch"
)

// Point is one coordinate of the grid: a batch of requests, the new tokens that it computes and the KV tokens
// that it reads, both summed over the batch.
type Point struct {
	PointType             string     `json:"point_type"`
	BenchmarkID           int        `json:"benchmark_id"` // 1-based in execution order; replicas come after all real points
	TotalPrefillTokens    int        `json:"total_prefill_tokens"`
	TotalKVReadTokens     int        `json:"total_kv_read_tokens"`
	BatchSize             int        `json:"batch_size"`
	ExpectedCudagraphMode string     `json:"expected_cudagraph_mode"`
	ExpectedCaptureSize   *int       `json:"expected_capture_size"`
	PaddingTokens         *int       `json:"padding_tokens"`
	SampleReasons         []string   `json:"sample_reasons"`
	Partition             *Partition `json:"partition"`
	Rows                  [][2]int   `json:"rows"` // per request: new tokens, KV tokens
}

// Partition splits a batch into high_count requests that are longer than the mean by fraction, and the rest.
type Partition struct {
	Axis      string `json:"axis"` // "new", "kv" or "both"
	HighCount int    `json:"high_count"`
	Fraction  Float  `json:"fraction"`
}

// Driver is the number that selects the capture size: new tokens for prefill, requests for decode.
func (p *Point) Driver() int {
	if p.PointType == Prefill {
		return p.TotalPrefillTokens
	}
	return p.BatchSize
}

// Replica reports whether the point is a discarded copy that warms up a shape no graph covers.
func (p *Point) Replica() bool { return slices.Equal(p.SampleReasons, []string{ReasonEagerWarmup}) }

// Has reports whether the point carries a sample reason.
func (p *Point) Has(reason string) bool { return slices.Contains(p.SampleReasons, reason) }

// Stamp adds a run-time reason once.
func (p *Point) Stamp(reason string) {
	if !p.Has(reason) {
		p.SampleReasons = append(slices.Clone(p.SampleReasons), reason)
	}
}

// Imbalanced reports whether the point's requests have different lengths by design: a partition, or unequal rows.
func (p *Point) Imbalanced() bool {
	if p.Partition != nil {
		return true
	}
	for _, r := range p.Rows {
		if r != p.Rows[0] {
			return true
		}
	}
	return false
}

// Key is the content identity of the coordinate (point_key): the same for every grid, order and id.
func (p *Point) Key() (string, error) {
	return digest(map[string]any{
		"point_type":           p.PointType,
		"batch_size":           p.BatchSize,
		"total_prefill_tokens": p.TotalPrefillTokens,
		"total_kv_read_tokens": p.TotalKVReadTokens,
		"partition":            p.Partition,
		"rows":                 p.Rows,
	})
}

// Digest identifies the queued point, labels and id included, between ranks.
func (p *Point) Digest() (string, error) { return digest(p) }

// GridDigest identifies the whole queue, replicas included, ids assigned.
func GridDigest(points []Point) (string, error) {
	if points == nil {
		points = []Point{}
	}
	return digest(points)
}
