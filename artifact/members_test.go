package artifact

import (
	"encoding/json"
	"strings"
	"testing"
)

// The members of records, in their order and with their zero values: integers as integers, floats with a point.
func TestMembers(t *testing.T) {
	const scheduled = `{"num_prefill_requests":0,"sum_prefill_tokens":0,"var_prefill_length":0.0,"sum_prefill_kv_tokens":0,"num_decode_requests":0,"sum_decode_kv_tokens":0,"var_decode_kv_tokens":0.0}`
	const queued = `{"num_prefill_requests":0,"sum_prefill_tokens":0,"var_prefill_length":0.0,"num_decode_requests":0,"sum_decode_kv_tokens":0,"var_decode_kv_tokens":0.0}`
	two := 2
	yes := true
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"record", FPM{Version: 1}, `{"version":1,"worker_id":"","dp_rank":0,"counter_id":0,"wall_time":0.0,"scheduled_requests":` + scheduled + `,"queued_requests":` + queued + `}`},
		{"median's record", FPM{Version: 1, MedianOf: &two, Steady: &yes}, `{"version":1,"worker_id":"","dp_rank":0,"counter_id":0,"wall_time":0.0,"scheduled_requests":` + scheduled +
			`,"queued_requests":` + queued + `,"kvwarm_giant_median_of":2,"kvwarm_steady_sample":true}`},
		{"point", Point{PointType: Decode, BenchmarkID: 3, TotalKVReadTokens: 1000000, BatchSize: 2, ExpectedCudagraphMode: "NONE", SampleReasons: []string{}},
			`{"point_type":"decode","benchmark_id":3,"total_prefill_tokens":0,"total_kv_read_tokens":1000000,"batch_size":2,"expected_cudagraph_mode":"NONE","expected_capture_size":null,"padding_tokens":null,"sample_reasons":[],"partition":null,"rows":null}`},
		{"partition and rows", Point{Partition: &Partition{Axis: "both", HighCount: 1, Fraction: 0.5}, Rows: [][2]int{{8, 0}, {8, 16}}},
			`{"point_type":"","benchmark_id":0,"total_prefill_tokens":0,"total_kv_read_tokens":0,"batch_size":0,"expected_cudagraph_mode":"","expected_capture_size":null,"padding_tokens":null,"sample_reasons":null,"partition":{"axis":"both","high_count":1,"fraction":0.5},"rows":[[8,0],[8,16]]}`},
		{"unrecorded prompts", UnrecordedPrompts(), `{"status":"unavailable","sha256":null,"requests":[]}`},
		{"unobserved graph", Cudagraph{Status: "unavailable"}, `{"status":"unavailable","runtime_mode":null,"num_unpadded_tokens":null,"num_padded_tokens":null,"num_paddings":null}`},
		{"observed graph", ObservedGraph("FULL", 3, 4), `{"status":"observed","runtime_mode":"FULL","num_unpadded_tokens":3,"num_padded_tokens":4,"num_paddings":1}`},
		{"replica's validation", LedgerValidation{Status: "failed", Scope: "attention_dp_group", FailedDPRank: &two}, `{"status":"failed","reason":null,"scope":"attention_dp_group","failed_dp_rank":2}`},
		{"failed stage", KVStage{Batch: 4, Failed: true, GroupFallback: true}, `{"batch":4,"failed":true,"group_fallback":true}`},
	} {
		got, err := json.Marshal(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: (%v)\ngot  %s\nwant %s", c.name, err, got, c.want)
		}
	}
}

// The protocol says what is measured and how, and what is not.
func TestProtocol(t *testing.T) {
	p := NewProtocol(&Content{Seed: "s", Vocab: 100, Kind: ContentPool, PoolTag: "tag"}, ProtocolPreparation{WarmupIterations: 5, GiantKVThreshold: 1000000, GiantKVRepeats: 3, DecodeRealKVWarmup: true})
	got, err := json.Marshal(p)
	want := `{"schema_version":1,"content_identity":"coordinate_rank_slot_v1","content_seed":"s","synthetic_content":"sharegpt","synthetic_pool_tag":"tag",` +
		`"prompt_hash_encoding":"uint32_le","independent_repetitions":1,"timing_metric":"scheduler_wall_time","input_evidence_scope":"injected_prompt_token_ids",` +
		`"unobserved":["sampled_continuation_token_ids","kv_cache_tensors","recurrent_state_tensors","execution_history_equivalence","decode_real_kv_chain_warmup_history","warmup_graph_kernel_and_cache_equivalence"],` +
		`"preparation":{"warmup_iterations":5,"prefill_real_seed":false,"decode_real_kv_warmup":true,"giant_kv_threshold":1000000,"giant_kv_repeats":3},` +
		`"execution_evidence":{"schema_version":1,"sample_field":"benchmark_sample","warmup_field":"warmup_evidence","forward_index_scope":"rank_process","timing_clock":"process_local_monotonic","cudagraph_source":"ModelRunnerOutput.cudagraph_stats","warmup_scope":"request_completion_and_existing_shape_validation"}}`
	if err != nil || string(got) != want {
		t.Errorf("(%v)\ngot  %s\nwant %s", err, got, want)
	}
	for kind, mode := range map[string]string{"": ContentRandom, ContentRandom: ContentRandom, ContentPool: ContentPool, ContentChain: ContentChain} {
		if got := (&Content{Vocab: 2, Kind: kind}).Mode(); got != mode {
			t.Errorf("kind %q is mode %q, want %q", kind, got, mode)
		}
		if got := (&Content{Vocab: 1, Kind: kind}).Mode(); got != ContentZeros {
			t.Errorf("kind %q with a vocabulary of one is mode %q", kind, got)
		}
	}
}

// Why points cannot be measured, one limit at a time.
func TestFeasible(t *testing.T) {
	for _, c := range []struct {
		name   string
		point  Point
		change func(l *Limits)
		want   string // part of the reason; empty: it can
	}{
		{"prefill at the limits", Point{PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 31, TotalKVReadTokens: 32}, nil, ""},
		{"too many requests", Point{PointType: Prefill, BatchSize: 5, TotalPrefillTokens: 5}, nil, "5 requests exceed max_num_seqs 4"},
		{"too many tokens", Point{PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 33}, nil, "33 new tokens exceed max_num_batched_tokens 32"},
		{"prompt too long by one", Point{PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 32, TotalKVReadTokens: 32}, nil, "a prompt of 64 tokens and one output exceed max_model_len 64"},
		{"KV without prefix caching", Point{PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 8, TotalKVReadTokens: 16}, func(l *Limits) { l.PrefixCaching = false }, "prefix caching off"},
		{"one request may use the watermark", Point{PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 32}, func(l *Limits) { l.Blocks, l.BlocksWatermark = 2, 1 }, ""},
		{"two may not", Point{PointType: Prefill, BatchSize: 2, TotalPrefillTokens: 32}, func(l *Limits) { l.Blocks, l.BlocksWatermark = 2, 1 }, "2 KV blocks of 16 tokens exceed the 1 usable ones"},
		{"decode at the limits", Point{PointType: Decode, BatchSize: 1, TotalKVReadTokens: 62}, nil, ""},
		{"context too long by one", Point{PointType: Decode, BatchSize: 1, TotalKVReadTokens: 63}, nil, "a context of 63 tokens and two outputs exceed max_model_len 64"},
		{"decode keeps the watermark", Point{PointType: Decode, BatchSize: 1, TotalKVReadTokens: 16}, func(l *Limits) { l.Blocks, l.BlocksWatermark = 2, 1 }, "2 KV blocks of 16 tokens exceed the 1 usable ones"},
		{"decode tokens", Point{PointType: Decode, BatchSize: 4, TotalKVReadTokens: 8}, func(l *Limits) { l.MaxTokens = 3 }, "4 decode tokens exceed max_num_batched_tokens 3"},
		{"row with part of a block", Point{PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 4, TotalKVReadTokens: 8, Rows: [][2]int{{4, 8}}}, nil, "16"},
		{"KV total with part of a block", Point{PointType: Prefill, BatchSize: 1, TotalPrefillTokens: 4, TotalKVReadTokens: 8}, nil, "16"},
	} {
		l := smallLimits()
		if c.change != nil {
			c.change(l)
		}
		err := l.Feasible(&c.point)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	l := smallLimits()
	l.MaxModelLen = 2
	if points := l.DecodeGrid(wide); points != nil {
		t.Errorf("a decode grid for sequences of two tokens: %v", points)
	}
}

// Decode points in the order of their chains: those that chains cover first, then large batches, then deep contexts.
func TestOrderForChains(t *testing.T) {
	l := smallLimits() // 20 blocks of 16 tokens
	points := []Point{}
	for _, p := range [][2]int{{1, 8}, {1, 62}, {4, 64}, {4, 248}, {4, 128}, {2, 8}} {
		points = append(points, Point{PointType: Decode, BatchSize: p[0], TotalKVReadTokens: p[1]})
	}
	l.orderForChains(points, 3)
	// Chains of 4 requests are at most 48 tokens deep: 20 blocks, less two of its own for each request.
	if got, want := shapes(points), "4/0/128 4/0/64 2/0/8 1/0/8 4/0/248 1/0/62"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for batch, want := range map[int]int{1: 60, 4: 48, 10: 0, 20: 0} {
		if got := l.ChainDepth(batch, 3); got != want {
			t.Errorf("chains of %d requests are %d deep, want %d", batch, got, want)
		}
	}
}
