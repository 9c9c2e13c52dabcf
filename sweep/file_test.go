package sweep

import (
	"strings"
	"testing"
	"time"
)

// What is wrong in a file is said with its place and what would be right.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no output", "matrix: {model: [tiny]}", "output: no folder is named"},
		{"an unknown key", "output: o\nmatrixx: {model: [tiny]}", `[2:1] unknown field "matrixx"`},
		{"no list", "output: o\nmatrix: {model: tiny}", "matrix: model: want a list of values such as [1, 2], line 2"},
		{"an empty list", "output: o\nmatrix: {model: []}", "matrix: model: the list is empty"},
		{"a value twice", "output: o\nmatrix: {np: [1, 2, 1]}", "matrix: np: 1 is there twice"},
		{"a flag twice", "output: o\nfpmbench: {mode: decode}\nmatrix: {mode: [prefill]}", "matrix: mode is set below fpmbench too"},
		{"a path of all runs", "output: o\nfpmbench: {output-path: x}", "fpmbench: output-path cannot be set: every run has a folder of its own"},
		{"repetitions in one folder", "output: o\nmatrix: {repeat: [2, 4]}", "matrix: repeat cannot be set: runs below one folder would be read as ranks of one run"},
		{"topology of fpmbench", "output: o\nfpmbench: {tp: 2}", "fpmbench: tp: the topology is fpmrun's"},
		{"a budget that is none", "output: o\nbudget: soon", "budget: soon: want a duration such as 90s or 2h"},
		{"fewer than no retries", "output: o\nretries: -1", "want 0 or more"},
		{"an axis that is none", "output: o\nmatrix: {np: [1]}\nexclude: [{tp: 2}]", "exclude: tp is no axis of the matrix"},
		{"a mapping as a value", "output: o\nfpmbench: {model: {a: b}}", "model: want a value or a list of values, line 2"},
		{"no value", "output: o\nfpmbench:\n  model:\n", "model: has no value, line 3"},
		{"a preset without GPUs", "output: o\npreset: {collectors: {layouts: [tp]}}", "gpus: none given"},
		{"a layout that is none", "output: o\npreset: {collectors: {gpus: [2], layouts: [ep]}}", "layouts: ep: want tp, pure_tp, tep, dep"},
		{"what the preset sets", "output: o\nmatrix: {mode: [decode]}\npreset: {collectors: {gpus: [2]}}", "matrix: mode: the preset sets it"},
		{"no preset", "output: o\npreset: {}", "preset: want collectors:"},
		{"a tag on what is no list", "output: o\nexclude: !x y", "YAML that cannot be read, such as a tag on what is no list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Values are handed on as they are written, whatever YAML takes them for.
func TestValuesStayAsWritten(t *testing.T) {
	f, err := Parse([]byte("output: o\nbudget: 90\nfpmbench: {content-seed: 007, stop-cv: 1e3, kv-warmup: off, no-async-scheduling: true, cudagraph-capture-sizes: [1, 2, 4], hf-overrides: '{\"a\": 1}', --dtype: auto}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--content-seed=007", "--stop-cv=1e3", "--kv-warmup=off", "--no-async-scheduling=true", "--cudagraph-capture-sizes=1,2,4", `--hf-overrides={"a": 1}`, "--dtype=auto"}
	if got := strings.Join(f.Bench.words(), " "); got != strings.Join(want, " ") {
		t.Errorf("words %s, want %s", got, want)
	}
	if d, err := f.Limit(); err != nil || d != 90*time.Second {
		t.Errorf("budget %v (%v), want 90s", d, err)
	}
}
