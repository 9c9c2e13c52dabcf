package main

import (
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
)

// refusedVariables are variables of the peer's benchmark that have no meaning here. Setting one is an error with the
// reason: a setting that is silently ignored makes a run that is not the one that was asked for.
var refusedVariables = []struct{ name, reason string }{
	{"DYN_BENCH_KV_WARMUP_CACHE_DIR", noDownload},
	{"DYN_FPM_TRACE", noTrace},
	{"DYN_FPM_OUTPUT_PATH", noTrace},
	{"DYN_FPM_MODE", noTrace},
	{"DYN_FPM_SAMPLE_INTERVAL_MS", noTrace},
	{"DYN_FPM_JSONL_GZ_ROLL_BYTES", noTrace},
	{"DYN_FPM_MAX_SEGMENTS", noTrace},
}

const (
	noDownload = "nothing is downloaded, so nothing is cached; give --dataset a file"
	noTrace    = "the live trace belongs to a serving engine; this benchmark serves nothing"
)

// applyContract resolves the settings that the peer's benchmark spells differently, and refuses those that cannot
// be honoured. getenv looks a variable up.
func (o *options) applyContract(getenv func(string) string, isSet func(flag string) bool) error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, v := range refusedVariables {
		if value := getenv(v.name); value != "" {
			refuse("%s=%s: %s; unset it", v.name, value, v.reason)
		}
	}
	if o.randomizeKDA {
		refuse("--benchmark-randomize-kda-state: no supported model has recurrent KDA layers; drop the flag or unset DYN_BENCHMARK_RANDOMIZE_KDA_STATE")
	}
	errs = append(errs, o.text.check(), o.stream.check())
	if reason := o.text.missingText(); o.content.Value != artifact.ContentRandom && reason != "" {
		refuse("--prefill-content %s: %s; give --token-pool, or --tokenizer and --dataset, or use random", o.content.Value, reason)
	}
	if o.poolTag != "" && o.content.Value != artifact.ContentPool {
		refuse("DYN_BENCH_POOL_TAG=%s: %s content has no text pool to redraw; unset it, or use --prefill-content sharegpt", o.poolTag, o.content.Value)
	}
	if o.gcPolicy != "" && o.gcPolicy != "freeze" {
		refuse("DYN_FPM_GC_POLICY=%s: want freeze, which is always in force: the collector runs between points only", o.gcPolicy)
	}
	for _, f := range sampleFlags {
		old := o.granularity[f.name]
		if !old.Given {
			continue
		}
		switch {
		case o.samples[f.name].Given:
			refuse("--%s and --%s exclude each other; use --%s", f.old, f.name, f.name)
		case o.pointsFile != "":
			refuse("--%s bounds a generated grid and --points-file gives the points; use one of them", f.old)
		default:
			o.samples[f.name].Value = max(old.Value, f.low)
		}
	}
	if o.strict && o.pointsFile != "" && !isSet("mode") {
		refuse("--points-file without --mode")
	}
	if isSet("collect-imbalanced-override") {
		o.collectImbalanced = bool(o.collectOverride)
	}
	if o.resume != "" && o.overwrite {
		refuse("--resume %s and --overwrite exclude each other: one goes on with what the other deletes", o.resume)
	}
	if o.outputOverride != "" {
		o.outputPath = o.outputOverride
	}
	errs = append(errs, o.applyRepeat(getenv))
	return errors.Join(errs...)
}
