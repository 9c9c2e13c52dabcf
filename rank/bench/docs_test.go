package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

var update = flag.Bool("update", false, "rewrite the examples in docs")

// exampleRun is a run of two DP ranks of a mixture of experts, with a prefill point and decode points over real and synthetic KV, whose times are made
// the same in every run.
func exampleRun(t *testing.T) []*artifact.Rank {
	t.Helper()
	g, err := model.Load("tiny-moe", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	outcomes, _ := runAll(t, 2, func(_ int, c *Config, f *fake) {
		onText(c)
		c.Mode, c.PrefillRealSeed, c.OutputPath, c.MaxBatchedTokens = "agg", true, dir+"/benchmark.json", 64
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[{"batch_size":2,"total_prefill_tokens":8,"total_kv_read_tokens":32}],
			"decode":[{"batch_size":2,"total_kv_read_tokens":64},{"batch_size":1,"total_kv_read_tokens":126}]}`)
		c.Engine = Provenance(c, Setup{Info: f.Info(), Geometry: g, Model: "tiny-moe", WeightSeed: new(int), DPSize: 2, Sizes: artifact.Sizes{TP: 1, PCP: 1, PP: 1}, Version: "1.0.0"})
		c.Own = map[string]any{"launch": map[string]any{"source": "fpmrun", "world_size": 2}}
	})
	docs := make([]*artifact.Rank, len(outcomes))
	for rank, o := range outcomes {
		if o.err != nil {
			t.Fatal(o.err)
		}
		docs[rank] = o.doc
		docs[rank].RunID, docs[rank].Config.OutputPath = strings.Repeat("3f", 16), artifact.RankPath("benchmark.json", rank)
	}
	fixTimes(t, docs)
	return docs
}

// fixTimes gives every step a time that depends on its place only: 1/32 s for the first step of a point, 1/64 s for the others, and 1/128 s more on rank 1.
func fixTimes(t *testing.T, docs []*artifact.Rank) {
	t.Helper()
	for i := range docs[0].Groups {
		group := docs[0].Groups[i]
		group.WallTime = 0
		for rank := range group.RankResults {
			fpm := &group.RankResults[rank].FPMs[0]
			m := fpm.Measurement
			clock := artifact.Float(m.Raw[0].Sample.ForwardIndex)
			for k := range m.Raw {
				start, wall := clock, artifact.Float(1.0/64+float64(rank)/128)
				if k == 0 {
					wall += 1.0 / 64
				}
				clock += wall
				m.Raw[k].WallTime, m.Raw[k].Sample.Timing.Start, m.Raw[k].Sample.Timing.End = wall, &start, clock
			}
			*fpm, m.Estimate = artifact.Reduce(m.Raw, m.ExpectedSamples)
			fpm.Measurement = m
			group.WallTime = max(group.WallTime, fpm.WallTime)
		}
		for rank, d := range docs {
			d.Groups[i] = group
			d.Results[i].FPMs = group.RankResults[rank].FPMs
		}
	}
	started, completed := "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:05.000000Z"
	for _, d := range docs {
		d.Timing = artifact.RunTiming{StartedAt: &started, CompletedAt: &completed, Elapsed: 5}
		for i := range d.KVWarm.Stages {
			seconds := artifact.Float(0.25)
			d.KVWarm.Stages[i].BuildSeconds = &seconds
		}
		d.Finish(len(d.Results), false, nil)
	}
}

// examples are the parts of the documents of a run that the documentation shows, by name.
func examples(t *testing.T) map[string]any {
	t.Helper()
	docs := exampleRun(t)
	var rank, merged, sidecar map[string]any
	parsed := make([]*artifact.Document, len(docs))
	dir := t.TempDir()
	var paths []string
	for i, d := range docs {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		path := artifact.RankPath("benchmark.json", i)
		if parsed[i], err = artifact.ParseDocument(path, text); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, filepath.Join(dir, path))
		if err := artifact.WriteFile(paths[i], d); err != nil {
			t.Fatal(err)
		}
	}
	m, err := artifact.Merge(parsed, "benchmark_merged.json")
	if err != nil {
		t.Fatal(err)
	}
	var answers []artifact.ProbeAnswer
	for r := range docs[:1] { // rank 1 does not answer
		text, err := ProbeHandler(gpu.Info{LayerBackends: map[string]string{"model.layers.0.self_attn.attn": "fake"}}, gpu.GraphConfig{Mode: "NONE"}, r, 0, artifact.Sizes{TP: 1, PCP: 1, PP: 1})(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, artifact.ProbeAnswer{JSON: text.([]byte)})
	}
	answers = append(answers, artifact.ProbeAnswer{Type: "TimeoutError", Repr: "no answer from rank 1"})
	s, err := artifact.NewSidecar(m, answers, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{"benchmark_merged.json": m, "benchmark_merged_worker_probe.json": s} {
		path := filepath.Join(dir, name)
		if err := artifact.WriteFile(path, v); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for _, r := range artifact.CheckFiles(paths) {
		if !r.Good() {
			t.Fatalf("%s: %v", r.Path, r.Violations)
		}
	}
	for v, into := range map[any]*map[string]any{docs[0]: &rank, m: &merged, s: &sidecar} {
		*into = tree(t, v)
	}
	head := func(doc map[string]any, lists ...string) map[string]any { // without what has an example of its own
		short := map[string]any{}
		for key, v := range doc {
			short[key] = v
		}
		for _, key := range lists {
			short[key] = "..."
		}
		return short
	}
	real := dig(rank, "results", 1)
	point := dig(real, "fpms", 0)
	view := func(v map[string]any) map[string]any {
		v = head(v, "resolved")
		v["worker_probe"] = head(v["worker_probe"].(map[string]any), "responses")
		return v
	}
	return map[string]any{
		"rank": head(rank, "kvwarm", "config", "limits", "measurement_protocol", "warmup_evidence", "engine", "results", "iteration_groups", "cudagraph", "fpmrun"),
		"config and limits": map[string]any{"config": rank["config"], "limits": rank["limits"], "cudagraph": rank["cudagraph"],
			"recurrent_state": rank["recurrent_state"], "fpmrun": rank["fpmrun"]},
		"protocol": rank["measurement_protocol"], "engine": rank["engine"], "kvwarm": rank["kvwarm"],
		"ledger":        map[string]any{"status": dig(rank, "warmup_evidence")["status"], "records": dig(rank, "warmup_evidence")["records"].([]any)[:3]},
		"result":        head(real, "fpms"),
		"record":        head(point, "benchmark_measurement"),
		"measurement":   head(dig(point, "benchmark_measurement"), "raw_fpms"),
		"raw":           dig(point, "benchmark_measurement", "raw_fpms", 1),
		"group":         head(dig(rank, "iteration_groups", 1), "rank_results", "point"),
		"merged":        head(merged, "kvwarm", "config", "limits", "measurement_protocol", "engine", "results", "iteration_groups", "cudagraph", "rank_warmup_evidence", "capacity", "fpmrun", "recurrent_state", "measurement_policy", "synthetic_prompts", "synchronization"),
		"merged row":    map[string]any{"point": dig(merged, "results", 3, "point"), "kv_seed_regime": dig(merged, "results", 3)["kv_seed_regime"], "fpms": "..."},
		"sidecar":       head(sidecar, "merged", "ranks"),
		"merged view":   view(dig(sidecar, "merged")),
		"rank 1 view":   view(dig(sidecar, "ranks", "1")),
		"probe replies": dig(sidecar, "merged", "worker_probe")["responses"],
	}
}

func tree(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var out map[string]any
	if err := in.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// dig walks into a document: strings are members, ints are elements.
func dig(v any, path ...any) map[string]any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			v = v.(map[string]any)[step]
		case int:
			v = v.([]any)[step]
		}
	}
	return v.(map[string]any)
}

var example = regexp.MustCompile("(?s)<!-- example: ([a-z0-9 ]+) -->\n```json\n(.*?)```\n")

// Every example in the documentation is what the code writes; -update rewrites them.
func TestDocumentedExamples(t *testing.T) {
	want := examples(t)
	used := map[string]bool{}
	for _, path := range []string{"../../docs/artifact.md", "../../docs/evidence-scope.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fresh := example.ReplaceAllFunc(text, func(block []byte) []byte {
			name := string(example.FindSubmatch(block)[1])
			v, ok := want[name]
			if !ok {
				t.Errorf("%s: there is no example %q", path, name)
				return block
			}
			used[name] = true
			return fmt.Appendf(nil, "<!-- example: %s -->\n```json\n%s\n```\n", name, compact(t, v))
		})
		if *update {
			if err := os.WriteFile(path, fresh, 0o644); err != nil { //nolint:gosec // a page for everybody
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(string(fresh), "\n")); diff != "" {
			t.Errorf("%s is not what the code writes (-page +code); rewrite with go test ./rank/bench -run DocumentedExamples -update\n%s", path, diff)
		}
	}
	for name := range want {
		if !used[name] {
			t.Errorf("example %q is on no page", name)
		}
	}
}

// compact writes a value with small objects and lists on one line.
func compact(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	var write func(v any, indent string)
	flat := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var spaced bytes.Buffer
		quoted := false
		for i, c := range text {
			spaced.WriteByte(c)
			if c == '"' && text[max(0, i-1)] != '\\' {
				quoted = !quoted
			}
			if !quoted && (c == ',' || c == ':') {
				spaced.WriteByte(' ')
			}
		}
		return spaced.String()
	}
	write = func(v any, indent string) {
		line := flat(v)
		if len(line)+len(indent) <= 140 {
			b.WriteString(line)
			return
		}
		inner := indent + "  "
		switch v := v.(type) {
		case map[string]any:
			b.WriteString("{\n")
			keys := slices.Sorted(maps.Keys(v))
			for i, key := range keys {
				b.WriteString(inner + strconv.Quote(key) + ": ")
				write(v[key], inner)
				b.WriteString(map[bool]string{true: ",\n", false: "\n"}[i < len(keys)-1])
			}
			b.WriteString(indent + "}")
		case []any:
			b.WriteString("[\n")
			for i, e := range v {
				b.WriteString(inner)
				write(e, inner)
				b.WriteString(map[bool]string{true: ",\n", false: "\n"}[i < len(v)-1])
			}
			b.WriteString(indent + "]")
		default:
			b.WriteString(line)
		}
	}
	write(v, "")
	return b.String()
}
