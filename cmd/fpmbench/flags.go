package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/gpu"
)

// options is the command line, as given.
type options struct {
	engine, mode, content, evidence flagvalue.Choice
	text                            textOptions
	stream                          streamOptions
	model, weights                  string
	overrides, dtype                string
	kvDType                         string
	weightSeed                      flagvalue.Count
	pointsFile, outputPath          string
	outputOverride, probePath       string
	resume                          string
	repeat                          flagvalue.Count
	order                           flagvalue.Choice
	stopCV, stopShare               percent
	reverse                         bool
	launch                          int // which of several launches this process belongs to; 0: none
	warmup                          flagvalue.Count
	timeout                         flagvalue.Duration
	collectImbalanced               bool
	randomizeKDA                    bool
	collectOverride                 flagvalue.OnOff
	contentSeed, poolTag, gcPolicy  string
	realSeed, kvWarmup              flagvalue.OnOff
	giantThreshold, giantRepeats    flagvalue.Count
	samples                         map[string]*flagvalue.Count // by flag name, see sampleFlags
	granularity                     map[string]*flagvalue.Count // by the name of the flag that replaced it
	maxModelLen, maxTokens, maxSeqs flagvalue.Count
	blockSize, kvBlocks             flagvalue.Count
	utilization                     float64
	noPrefixCaching                 bool
	graphMode                       flagvalue.Choice
	captureSizes                    flagvalue.Sizes
	noAsync                         bool
	dp, tp, pp, pcp                 flagvalue.Count
	expertParallel                  bool
	single, strict, overwrite       bool
	requireSecret                   bool
	dryRun                          bool
	roofline, gpuTiming, progress   bool
	explained                       string // why a point may be faster than its floor
	serve                           string
	graphMetrics                    bool
	workerID                        string
}

func newOptions() *options {
	o := &options{
		engine:   flagvalue.Choice{Value: "auto", Allowed: []string{"auto", "cuda", "cpu", "sim"}},
		mode:     flagvalue.Choice{Value: "agg", Allowed: []string{"prefill", "decode", "agg"}},
		content:  flagvalue.Choice{Value: "random", Allowed: []string{"random", "sharegpt", "sharegpt_chain"}},
		evidence: flagvalue.Choice{Value: "full", Allowed: []string{"full", "minimal", "alternate"}},
		repeat:   flagvalue.Count{Value: 1, Low: 1},
		order:    flagvalue.Choice{Value: "abba", Allowed: []string{"abba", "same"}},
		stopCV:   percent{Percent: flagvalue.Percent{Value: 0.05}}, stopShare: percent{Percent: flagvalue.Percent{Value: 0.02}},
		graphMode:      flagvalue.Choice{Allowed: gpu.GraphModeNames()},
		warmup:         flagvalue.Count{Value: 5},
		timeout:        flagvalue.Duration(900 * time.Second),
		kvWarmup:       true,
		giantThreshold: flagvalue.Count{Value: 1000000}, giantRepeats: flagvalue.Count{Value: 3, Low: 1},
		maxModelLen: flagvalue.Count{Low: 3}, maxTokens: flagvalue.Count{Low: 1}, maxSeqs: flagvalue.Count{Low: 1}, blockSize: flagvalue.Count{Value: 16, Low: 1}, kvBlocks: flagvalue.Count{Low: 2},
		dp: flagvalue.Count{Low: 1}, tp: flagvalue.Count{Low: 1}, pp: flagvalue.Count{Low: 1}, pcp: flagvalue.Count{Low: 1},
		samples: map[string]*flagvalue.Count{}, granularity: map[string]*flagvalue.Count{},
	}
	for _, f := range sampleFlags {
		o.samples[f.name] = &flagvalue.Count{Value: f.value, Low: f.low}
		o.granularity[f.name] = &flagvalue.Count{Low: 1, High: 1024}
	}
	return o
}

// sampleFlags bound a generated grid; each replaces an older granularity flag.
var sampleFlags = []struct {
	name, env  string
	value, low int
	old        string
	oldEnv     string
	usage      string
}{
	{"prefill-max-new-token-samples", "PREFILL_MAX_NEW_TOKEN_SAMPLES", 64, 2, "benchmark-prefill-granularity", "DYN_BENCHMARK_PREFILL_GRANULARITY", "numbers of new tokens in a prefill grid"},
	{"prefill-max-kv-read-token-samples", "PREFILL_MAX_KV_READ_TOKEN_SAMPLES", 16, 2, "benchmark-prefill-kv-read-granularity", "DYN_BENCHMARK_PREFILL_KV_READ_GRANULARITY", "KV totals for each prefill batch"},
	{"decode-max-kv-read-token-samples", "DECODE_MAX_KV_READ_TOKEN_SAMPLES", 128, 2, "benchmark-decode-length-granularity", "DYN_BENCHMARK_DECODE_LENGTH_GRANULARITY", "KV totals for each decode batch"},
	{"decode-max-batch-size-samples", "DECODE_MAX_BATCH_SIZE_SAMPLES", 128, 2, "benchmark-decode-batch-granularity", "DYN_BENCHMARK_DECODE_BATCH_GRANULARITY", "batch sizes in a decode grid"},
	{"prefix-max-batch-size-samples", "PREFIX_MAX_BATCH_SIZE_SAMPLES", 3, 1, "benchmark-prefill-batch-granularity", "DYN_BENCHMARK_PREFILL_BATCH_GRANULARITY", "batch sizes for each number of prefill tokens"},
}

// flags declares the command line. Names of the peer's benchmark are accepted as aliases, and its variables beside
// our own.
func (o *options) flags() []cli.Flag {
	env := func(names ...string) []string { return names }
	flags := []cli.Flag{
		&cli.GenericFlag{Name: "engine", Value: &o.engine, EnvVars: env("FPM_ENGINE"), Usage: "`NAME` of the engine: auto, cuda, cpu or sim"},
		&cli.StringFlag{Name: "model", DefaultText: "the folder of --weights, else tiny", Destination: &o.model, EnvVars: env("FPM_MODEL"), Usage: "preset `NAME`, config.json or a folder that holds one"},
		&cli.StringFlag{Name: "weights", Value: randomWeights, Destination: &o.weights, EnvVars: env("FPM_WEIGHTS"), Usage: "`PATH` of a folder or file of safetensors, or random"},
		&cli.StringFlag{Name: "hf-overrides", Destination: &o.overrides, EnvVars: env("FPM_HF_OVERRIDES"), Usage: "`JSON` object merged into config.json, such as '{\"num_hidden_layers\":2}'"},
		&cli.GenericFlag{Name: "weight-seed", Value: &o.weightSeed, EnvVars: env("FPM_WEIGHT_SEED"), Usage: "seed `N` of the random weights"},
		&cli.StringFlag{Name: "dtype", Value: "auto", Destination: &o.dtype, EnvVars: env("FPM_DTYPE"), Usage: "`TYPE` of weights and activations"},
		&cli.StringFlag{Name: "kv-dtype", Value: "auto", Destination: &o.kvDType, EnvVars: env("FPM_KV_DTYPE"), Usage: "`TYPE` of the KV cache"},

		&cli.GenericFlag{Name: "mode", Aliases: []string{"benchmark-mode"}, Value: &o.mode, EnvVars: env("FPM_MODE", "DYN_BENCHMARK_MODE"), Usage: "`PHASE` to measure: prefill, decode or agg (both)"},
		&cli.StringFlag{Name: "points-file", Aliases: []string{"benchmark-points-file"}, Destination: &o.pointsFile, EnvVars: env("FPM_POINTS_FILE", "DYN_BENCHMARK_POINTS_FILE"), Usage: "measure the points in `FILE` instead of a generated grid"},
		&cli.GenericFlag{Name: "warmup-iterations", Aliases: []string{"benchmark-warmup-iterations"}, Value: &o.warmup, EnvVars: env("FPM_WARMUP_ITERATIONS", "DYN_BENCHMARK_WARMUP_ITERATIONS"), Usage: "`N` tokens of the warm-up request; 0 skips it"},
		&cli.StringFlag{Name: "output-path", Aliases: []string{"benchmark-output-path"}, Destination: &o.outputPath, EnvVars: env("FPM_OUTPUT_PATH", "DYN_BENCHMARK_OUTPUT_PATH"), Usage: "`FILE` of rank 0 (default fpm-results/<run id>/benchmark.json)"},
		&cli.StringFlag{Name: "output-override", Hidden: true, Destination: &o.outputOverride, EnvVars: env("DYN_FPM_BENCHMARK_OUTPUT_PATH")},
		&cli.StringFlag{Name: "probe-path", Destination: &o.probePath, EnvVars: env("FPM_PROBE_PATH"), Usage: "`FILE` of the worker-probe sidecar (default beside the merged document)"},
		&cli.StringFlag{Name: "serve", Destination: &o.serve, EnvVars: env("FPM_SERVE"), Usage: "after the run, serve the documents over HTTP at `ADDR` until a signal comes; a port alone is on the loopback interface"},
		&cli.BoolFlag{Name: "cudagraph-metrics", Destination: &o.graphMetrics, EnvVars: env("FPM_CUDAGRAPH_METRICS"), Usage: "leave the report of dispatched graphs on after the run; during it, it is on anyway"},
		&cli.BoolFlag{Name: "overwrite", Destination: &o.overwrite, EnvVars: env("FPM_OVERWRITE"), Usage: "delete files of an earlier run under the same names"},
		&cli.GenericFlag{Name: "evidence", Value: &o.evidence, EnvVars: env("FPM_EVIDENCE"), Usage: "`HOW MUCH` to record of host and process around each point and over each step: full, minimal (nothing) or alternate (with and without, to see what it costs)"},
		&cli.StringFlag{Name: "resume", Destination: &o.resume, EnvVars: env("FPM_RESUME"), Usage: "go on with the run in the folder `RUN`: measure what it lacks"},
		&cli.GenericFlag{Name: "repeat", Value: &o.repeat, EnvVars: env("FPM_REPEAT"), Usage: "launch the run `N` times, each a fresh gang of processes with a folder and run id of its own"},
		&cli.GenericFlag{Name: "order", Value: &o.order, EnvVars: env("FPM_ORDER"), Usage: "`ORDER` of the points in the launches of --repeat: abba (as planned, reversed, reversed, as planned, ...) or same"},
		&cli.GenericFlag{Name: "stop-cv", DefaultText: "5% with --stop-share", Value: &o.stopCV, EnvVars: env("FPM_STOP_CV"), Usage: "launch no more when too many points vary by more than `PERCENT` between launches"},
		&cli.GenericFlag{Name: "stop-share", DefaultText: "2% with --stop-cv", Value: &o.stopShare, EnvVars: env("FPM_STOP_SHARE"), Usage: "`PERCENT` of the points that may vary by more than --stop-cv"},
		&cli.BoolFlag{Name: "reverse", Destination: &o.reverse, EnvVars: env("FPM_REVERSE"), Usage: "measure the points of each phase in reverse order"},
		&cli.GenericFlag{Name: "timeout", Aliases: []string{"benchmark-timeout"}, Value: &o.timeout, EnvVars: env("FPM_TIMEOUT", "DYN_BENCHMARK_TIMEOUT"), Usage: "stop at the next point after `D`, in seconds or as 15m"},
		&cli.BoolFlag{Name: "collect-imbalanced", Aliases: []string{"benchmark-collect-imbalanced"}, Destination: &o.collectImbalanced, EnvVars: env("FPM_COLLECT_IMBALANCED", "DYN_BENCHMARK_COLLECT_IMBALANCED"), Usage: "keep explicit points whose requests differ in length"},
		&cli.BoolFlag{Name: "randomize-kda-state", Aliases: []string{"benchmark-randomize-kda-state"}, Hidden: true, Destination: &o.randomizeKDA, EnvVars: env("DYN_BENCHMARK_RANDOMIZE_KDA_STATE")},
		&cli.GenericFlag{Name: "collect-imbalanced-override", Hidden: true, Value: &o.collectOverride, EnvVars: env("DYN_FPM_BENCH_COLLECT_IMBALANCED")},

		&cli.StringFlag{Name: "content-seed", Value: "0", Destination: &o.contentSeed, EnvVars: env("FPM_CONTENT_SEED", "DYN_BENCH_CONTENT_SEED"), Usage: "`TEXT` that selects the prompts' token ids"},
		&cli.GenericFlag{Name: "prefill-content", Value: &o.content, EnvVars: env("FPM_PREFILL_CONTENT", "DYN_BENCH_PREFILL_CONTENT"), Usage: "`KIND` of prompt content: random, sharegpt (windows of text) or sharegpt_chain (conversations)"},
		&cli.StringFlag{Name: "pool-tag", Hidden: true, Destination: &o.poolTag, EnvVars: env("FPM_POOL_TAG", "DYN_BENCH_POOL_TAG")},
		&cli.GenericFlag{Name: "prefill-real-seed", Value: &o.realSeed, EnvVars: env("FPM_PREFILL_REAL_SEED", "DYN_BENCH_PREFILL_REAL_SEED"), Usage: "compute the cached prefixes of prefill points (`SWITCH` on) or only register them (off)"},
		&cli.GenericFlag{Name: "kv-warmup", Value: &o.kvWarmup, EnvVars: env("FPM_KV_WARMUP", "DYN_BENCH_KV_WARMUP"), Usage: "decode over real KV where the model is eligible (`SWITCH` on) or never (off)"},
		&cli.GenericFlag{Name: "giant-kv-threshold", Value: &o.giantThreshold, EnvVars: env("FPM_GIANT_KV_THRESHOLD", "DYN_BENCH_GIANT_KV_THRESHOLD"), Usage: "repeat decode points that read at least `N` KV tokens; 0 repeats all"},
		&cli.GenericFlag{Name: "giant-kv-repeats", Value: &o.giantRepeats, EnvVars: env("FPM_GIANT_KV_REPEATS", "DYN_BENCH_GIANT_KV_REPEATS"), Usage: "`N` steady steps of a repeated point"},
		&cli.StringFlag{Name: "gc-policy", Hidden: true, Destination: &o.gcPolicy, EnvVars: env("DYN_FPM_GC_POLICY")},
		&cli.StringFlag{Name: "worker-id", Destination: &o.workerID, EnvVars: env("FPM_WORKER_ID", "DYN_FPM_WORKER_ID"), Usage: "`ID` written into every record"},

		&cli.GenericFlag{Name: "max-model-len", DefaultText: "cpu 512, cuda and sim 131072, and at most the model's own", Value: &o.maxModelLen, EnvVars: env("FPM_MAX_MODEL_LEN"), Usage: "most `TOKENS` in one sequence"},
		&cli.GenericFlag{Name: "max-num-batched-tokens", DefaultText: "cpu 256, cuda and sim 8192", Value: &o.maxTokens, EnvVars: env("FPM_MAX_NUM_BATCHED_TOKENS"), Usage: "most new `TOKENS` in one step"},
		&cli.GenericFlag{Name: "max-num-seqs", DefaultText: "cpu 8, cuda and sim 256", Value: &o.maxSeqs, EnvVars: env("FPM_MAX_NUM_SEQS"), Usage: "most `REQUESTS` in one step"},
		&cli.GenericFlag{Name: "block-size", Value: &o.blockSize, EnvVars: env("FPM_BLOCK_SIZE"), Usage: "`TOKENS` in a KV block"},
		&cli.GenericFlag{Name: "kv-blocks", DefaultText: "enough for the limits; cuda: what the GPU has room for", Value: &o.kvBlocks, EnvVars: env("FPM_KV_BLOCKS"), Usage: "`N` KV blocks"},
		&cli.Float64Flag{Name: "gpu-memory-utilization", Value: 0.9, Destination: &o.utilization, EnvVars: env("FPM_GPU_MEMORY_UTILIZATION"), Usage: "`PART` of the GPU's memory that the ranks on it may take"},
		&cli.BoolFlag{Name: "no-enable-prefix-caching", Destination: &o.noPrefixCaching, EnvVars: env("FPM_NO_PREFIX_CACHING"), Usage: "switch the prefix cache off: no prefill point reads KV"},
		&cli.GenericFlag{Name: "cudagraph-mode", Value: &o.graphMode, EnvVars: env("FPM_CUDAGRAPH_MODE"), Usage: "`MODE` of graph dispatch: NONE, PIECEWISE, FULL, FULL_AND_PIECEWISE or FULL_DECODE_ONLY"},
		&cli.GenericFlag{Name: "cudagraph-capture-sizes", Value: &o.captureSizes, EnvVars: env("FPM_CUDAGRAPH_CAPTURE_SIZES"), Usage: "capture `SIZES`, ascending and separated by commas"},
		&cli.BoolFlag{Name: "no-async-scheduling", Destination: &o.noAsync, EnvVars: env("FPM_NO_ASYNC_SCHEDULING"), Usage: "launch a step only when the output of the one before has arrived"},

		&cli.GenericFlag{Name: "dp", DefaultText: "derived from the world", Value: &o.dp, Usage: "`N` data-parallel ranks"},
		&cli.GenericFlag{Name: "tp", DefaultText: "derived from the world", Value: &o.tp, Usage: "`N` tensor-parallel ranks"},
		&cli.GenericFlag{Name: "pp", DefaultText: "derived from the world", Value: &o.pp, Usage: "`N` pipeline-parallel ranks; only 1 works"},
		&cli.GenericFlag{Name: "pcp", DefaultText: "derived from the world", Value: &o.pcp, Usage: "`N` prefill-context-parallel ranks; only 1 works"},
		&cli.BoolFlag{Name: "expert-parallel", Aliases: []string{"enable-expert-parallel"}, Destination: &o.expertParallel, EnvVars: env("FPM_EXPERT_PARALLEL"), Usage: "spread whole experts over all ranks instead of splitting each over the tensor-parallel ranks"},
		&cli.BoolFlag{Name: "single", Destination: &o.single, EnvVars: env("FPM_SINGLE"), Usage: "run as a world of one whatever the launcher's variables say"},
		&cli.BoolFlag{Name: "require-secret", Destination: &o.requireSecret, EnvVars: env("FPM_REQUIRE_SECRET"), Usage: "refuse to meet the other ranks by the launch's public name only; docs/security.md lists the kinds of secrets"},
		&cli.BoolFlag{Name: "strict-contract", Destination: &o.strict, EnvVars: env("FPM_STRICT_CONTRACT"), Usage: "refuse what the peer's benchmark refuses"},
		&cli.BoolFlag{Name: "roofline", Destination: &o.roofline, EnvVars: env("FPM_ROOFLINE"), Usage: "measure what the device can do at most, before, between and after the points, and print each point's time over its floor; fails when these ceilings move by more than 3 % or a point is below 0.98 of its floor"},
		&cli.BoolFlag{Name: "gpu-timing", Destination: &o.gpuTiming, EnvVars: env("FPM_GPU_TIMING"), Usage: "a diagnostic run: the GPU times each step by events, which are kept beside the samples; its documents are not merged, nor accepted by fpmstat check --gate"},
		&cli.BoolFlag{Name: "debug-progress", Destination: &o.progress, EnvVars: env("FPM_DEBUG_PROGRESS"), Usage: "have the GPU tell after each command that it ended, so that the error of a step that is stuck names the layer; costs time in every step"},
		&cli.StringFlag{Name: "roofline-explained", Destination: &o.explained, EnvVars: env("FPM_ROOFLINE_EXPLAINED"), Usage: "`WHY` points may be faster than their floor, such as weights that stay in a cache; kept in the artifact"},
		&cli.BoolFlag{Name: "dry-run", Destination: &o.dryRun, Usage: "print the model, its memory and the points, and measure nothing"},
	}
	flags = append(flags, o.text.flags()...)
	flags = append(flags, o.stream.flags()...)
	for _, f := range sampleFlags {
		flags = append(flags,
			&cli.GenericFlag{Name: f.name, Value: o.samples[f.name], EnvVars: env("FPM_"+f.env, "DYN_"+f.env), Usage: "at most `N` " + f.usage},
			&cli.GenericFlag{Name: f.old, Hidden: true, Value: o.granularity[f.name], EnvVars: env(f.oldEnv)})
	}
	return flags
}
