package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
)

// dry runs the program with --dry-run, which stops after everything that a command line can get wrong.
func dry(t *testing.T, environ []string, args ...string) (int, string, string) {
	t.Helper()
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value) // flags read the process's environment themselves
	}
	var stdout, stderr strings.Builder
	code := run(t.Context(), append([]string{"fpmbench", "--dry-run"}, args...), environ, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// Every flag and variable of the peer's benchmark is taken under its own name, or refused with a reason.
func TestEverySettingOfThePeer(t *testing.T) {
	for _, c := range []struct {
		name    string
		environ []string
		args    []string
		refused string // part of the reason; empty: accepted
		shows   string // part of what the dry run prints because of it
	}{
		{"mode flag", nil, []string{"--benchmark-mode", "decode"}, "", "prefill points                                   0"},
		{"mode variable", []string{"DYN_BENCHMARK_MODE=prefill"}, nil, "", "decode points                                    0"},
		{"points flag", nil, []string{"--benchmark-points-file", "../../artifact/testdata/points-mixed.json"}, "", "prefill points                                   5"},
		{"points variable", []string{"DYN_BENCHMARK_POINTS_FILE=../../artifact/testdata/points-mixed.json"}, nil, "", "decode points                                    4"},
		{"warm-up flag", nil, []string{"--benchmark-warmup-iterations", "0"}, "", ""},
		{"warm-up variable", []string{"DYN_BENCHMARK_WARMUP_ITERATIONS=-1"}, nil, "warmup-iterations", ""},
		{"output flag", nil, []string{"--benchmark-output-path", "x.json"}, "", ""},
		{"output variable", []string{"DYN_BENCHMARK_OUTPUT_PATH=x.json"}, nil, "", ""},
		{"timeout flag", nil, []string{"--benchmark-timeout", "0"}, "timeout", ""},
		{"timeout variable", []string{"DYN_BENCHMARK_TIMEOUT=17.5"}, nil, "", ""},
		{"imbalanced flag", nil, []string{"--benchmark-collect-imbalanced", "--points-file", "../../artifact/testdata/points-mixed.json"}, "", "prefill points                                   7"},
		{"imbalanced variable", []string{"DYN_BENCHMARK_COLLECT_IMBALANCED=true"}, []string{"--points-file", "../../artifact/testdata/points-mixed.json"}, "", "prefill points                                   7"},
		{"imbalanced override", []string{"DYN_FPM_BENCH_COLLECT_IMBALANCED=no"}, []string{"--collect-imbalanced", "--points-file", "../../artifact/testdata/points-mixed.json"}, "", "prefill points                                   5"},
		{"imbalanced override, wrong", []string{"DYN_FPM_BENCH_COLLECT_IMBALANCED=maybe"}, nil, "maybe", ""},
		{"KDA flag", nil, []string{"--benchmark-randomize-kda-state"}, "no supported model has recurrent KDA layers", ""},
		{"KDA variable", []string{"DYN_BENCHMARK_RANDOMIZE_KDA_STATE=1"}, nil, "no supported model has recurrent KDA layers", ""},
		{"prefill tokens flag", nil, []string{"--prefill-max-new-token-samples", "2", "--mode", "prefill"}, "", "warm-up replicas                                 2"},
		{"prefill tokens variable", []string{"DYN_PREFILL_MAX_NEW_TOKEN_SAMPLES=1"}, nil, "at least 2", ""},
		{"prefill KV flag", nil, []string{"--prefill-max-kv-read-token-samples", "1"}, "at least 2", ""},
		{"prefill KV variable", []string{"DYN_PREFILL_MAX_KV_READ_TOKEN_SAMPLES=4"}, nil, "", ""},
		{"decode KV flag", nil, []string{"--decode-max-kv-read-token-samples", "4"}, "", ""},
		{"decode KV variable", []string{"DYN_DECODE_MAX_KV_READ_TOKEN_SAMPLES=x"}, nil, `"x"`, ""},
		{"decode batch flag", nil, []string{"--decode-max-batch-size-samples", "2", "--mode", "decode"}, "", "warm-up replicas                                 2"},
		{"decode batch variable", []string{"DYN_DECODE_MAX_BATCH_SIZE_SAMPLES=2"}, []string{"--mode", "decode"}, "", "warm-up replicas                                 2"},
		{"prefix batch flag", nil, []string{"--prefix-max-batch-size-samples", "0"}, "at least 1", ""},
		{"prefix batch variable", []string{"DYN_PREFIX_MAX_BATCH_SIZE_SAMPLES=1"}, nil, "", ""},
		{"granularity flag", nil, []string{"--benchmark-prefill-granularity", "1", "--mode", "prefill"}, "", "warm-up replicas                                 2"},
		{"granularity variable", []string{"DYN_BENCHMARK_PREFILL_GRANULARITY=1025"}, nil, "from 1 to 1024", ""},
		{"granularity and its replacement", nil, []string{"--benchmark-decode-batch-granularity", "2", "--decode-max-batch-size-samples", "2"}, "exclude each other", ""},
		{"granularity and points", nil, []string{"--benchmark-decode-length-granularity", "2", "--points-file", "../../artifact/testdata/points-mixed.json"}, "generated grid", ""},
		{"granularity of KV", []string{"DYN_BENCHMARK_PREFILL_KV_READ_GRANULARITY=2"}, nil, "", ""},
		{"granularity of prefix batches", []string{"DYN_BENCHMARK_PREFILL_BATCH_GRANULARITY=1"}, nil, "", ""},
		{"granularity of decode lengths", []string{"DYN_BENCHMARK_DECODE_LENGTH_GRANULARITY=2"}, nil, "", ""},
		{"granularity of decode batches", []string{"DYN_BENCHMARK_DECODE_BATCH_GRANULARITY=2"}, []string{"--mode", "decode"}, "", "warm-up replicas                                 2"},
		{"content seed", []string{"DYN_BENCH_CONTENT_SEED=abc"}, nil, "", ""},
		{"content random", []string{"DYN_BENCH_PREFILL_CONTENT=random"}, nil, "", ""},
		{"content sharegpt", []string{"DYN_BENCH_PREFILL_CONTENT=sharegpt"}, nil, "tokenizer_unavailable: neither --tokenizer nor --token-pool", ""},
		{"content chain", []string{"DYN_BENCH_PREFILL_CONTENT=sharegpt_chain"}, nil, "tokenizer_unavailable", ""},
		{"content unknown", []string{"DYN_BENCH_PREFILL_CONTENT=lorem"}, nil, "lorem", ""},
		{"pool tag", []string{"DYN_BENCH_POOL_TAG=x"}, nil, "no text pool", ""},
		{"real seed", []string{"DYN_BENCH_PREFILL_REAL_SEED=on"}, nil, "", ""},
		{"KV warm-up", []string{"DYN_BENCH_KV_WARMUP=off"}, nil, "", ""},
		{"KV warm-up, wrong", []string{"DYN_BENCH_KV_WARMUP=perhaps"}, nil, "want on or off", ""},
		{"data set", []string{"DYN_BENCH_KV_WARMUP_DATASET=/x"}, nil, "--dataset /x needs --tokenizer", ""},
		{"data set to download", []string{"DYN_BENCH_KV_WARMUP_DATASET=https://host/x.json"}, nil, "nothing is downloaded", ""},
		{"data set cache", []string{"DYN_BENCH_KV_WARMUP_CACHE_DIR=/x"}, nil, "nothing is downloaded", ""},
		{"data set digest", []string{"DYN_BENCH_KV_WARMUP_SHA256=00"}, nil, "there is no --dataset", ""},
		{"giant threshold", []string{"DYN_BENCH_GIANT_KV_THRESHOLD=0"}, nil, "", ""},
		{"giant repeats", []string{"DYN_BENCH_GIANT_KV_REPEATS=0"}, nil, "at least 1", ""},
		{"output override", []string{"DYN_FPM_BENCHMARK_OUTPUT_PATH=y.json"}, nil, "", ""},
		{"collector policy", []string{"DYN_FPM_GC_POLICY=freeze"}, nil, "", ""},
		{"collector policy, wrong", []string{"DYN_FPM_GC_POLICY=thaw"}, nil, "want freeze", ""},
		{"metric port", []string{"DYN_FORWARDPASS_METRIC_PORT=20380"}, nil, "", ""},
		{"metric port, wrong", []string{"DYN_FORWARDPASS_METRIC_PORT=70000"}, nil, "from 0 to 65535", ""},
		{"worker id", []string{"DYN_FPM_WORKER_ID=w1"}, nil, "", ""},
		{"trace", []string{"DYN_FPM_TRACE=1"}, nil, "live trace", ""},
		{"trace path", []string{"DYN_FPM_OUTPUT_PATH=/x"}, nil, "live trace", ""},
		{"trace mode", []string{"DYN_FPM_MODE=sampled"}, nil, "live trace", ""},
		{"trace interval", []string{"DYN_FPM_SAMPLE_INTERVAL_MS=1"}, nil, "live trace", ""},
		{"trace roll", []string{"DYN_FPM_JSONL_GZ_ROLL_BYTES=1"}, nil, "live trace", ""},
		{"trace segments", []string{"DYN_FPM_MAX_SEGMENTS=1"}, nil, "live trace", ""},
		{"strict points without a mode", nil, []string{"--strict-contract", "--points-file", "../../artifact/testdata/points-mixed.json"}, "without --mode", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := dry(t, c.environ, c.args...)
			if c.refused != "" {
				if code != exit.Usage || !strings.Contains(stderr, c.refused) {
					t.Errorf("status %d, want 2 and a reason with %q\n%s", code, c.refused, stderr)
				}
				return
			}
			if code != 0 || !strings.Contains(stdout, c.shows) {
				t.Errorf("status %d, want 0 and %q\n%s%s", code, c.shows, stdout, stderr)
			}
		})
	}
}

// Without a setting the defaults are the peer's.
func TestDefaults(t *testing.T) {
	o := newOptions()
	for name, want := range map[string]int{
		"prefill-max-new-token-samples": 64, "prefill-max-kv-read-token-samples": 16, "decode-max-kv-read-token-samples": 128,
		"decode-max-batch-size-samples": 128, "prefix-max-batch-size-samples": 3,
	} {
		if got := o.samples[name].Value; got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if o.warmup.Value != 5 || o.timeout.String() != "15m0s" || o.giantThreshold.Value != 1000000 || o.giantRepeats.Value != 3 || !bool(o.kvWarmup) || bool(o.realSeed) {
		t.Errorf("defaults: %+v", o)
	}
}

func TestCaptureSizes(t *testing.T) {
	list := captureSizes(512)
	if len(list) != 51 || list[2] != 4 || list[3] != 8 || list[len(list)-1] != 512 {
		t.Errorf("%d sizes: %v", len(list), list)
	}
	if got := captureSizes(40); len(got) != 8 {
		t.Errorf("up to 40: %v", got)
	}
}

// Parameters and KV bytes per token of the published geometries, exactly.
func TestCase01DryRunOfEveryGeometry(t *testing.T) {
	for name, want := range map[string][2]string{
		"llama-3.1-8b":      {"8030261248", "131072"},
		"llama-3.1-70b":     {"70553706496", "327680"},
		"qwen2.5-7b":        {"7615616512", "57344"},
		"qwen3-0.6b":        {"596049920", "114688"},
		"qwen3-8b":          {"8190735360", "147456"},
		"qwen3-30b-a3b":     {"30532122624", "98304"},
		"mistral-7b-v0.1":   {"7241732096", "131072"},
		"mistral-nemo-2407": {"12247782400", "163840"},
		"mixtral-8x7b-v0.1": {"46702792704", "131072"},
		"deepseek-v3":       {"671026419200", "70272"},
	} {
		for _, engine := range []string{"cpu", "sim"} {
			code, stdout, stderr := dry(t, nil, "--model", name, "--engine", engine)
			fields := strings.Fields(stdout)
			if code != 0 || !slices.Contains(fields, want[0]) || !slices.Contains(fields, want[1]) {
				t.Errorf("%s on %s: status %d, want %s parameters and %s bytes\n%s%s", name, engine, code, want[0], want[1], stdout, stderr)
			}
		}
	}
}

// What the host cannot hold is refused before it is tried, with the numbers.
func TestTooLargeForTheHost(t *testing.T) {
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{"fpmbench", "--model", "llama-3.1-70b", "--engine", "sim"}, nil, &stdout, &stderr)
	if code != exit.Usage || !strings.Contains(stderr.String(), "131.4 GiB") || !strings.Contains(stderr.String(), "--tp") {
		t.Errorf("status %d: %s", code, stderr.String())
	}
}

// Decode batches that no capture covers are announced before the run, once.
func TestCase23Warning(t *testing.T) {
	args := []string{"--engine", "sim", "--max-num-seqs", "20", "--cudagraph-capture-sizes"}
	code, _, stderr := dry(t, nil, append(args, "1,2,4,8,16")...)
	if code != 0 || strings.Count(stderr, "without a graph") != 1 || !strings.Contains(stderr, "from=17 to=20") {
		t.Errorf("status %d, want one warning about 17 to 20: %s", code, stderr)
	}
	if code, _, stderr := dry(t, nil, append(args, "1,2,4,8,16,20")...); code != 0 || strings.Contains(stderr, "without a graph") {
		t.Errorf("with a capture of 20: status %d: %s", code, stderr)
	}
}
