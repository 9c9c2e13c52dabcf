package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

// measuredAt is a merged document with points of these wall times in seconds.
func measuredAt(t *testing.T, path, status string, walls ...float64) {
	t.Helper()
	groups := []artifact.Group{}
	for i, wall := range walls {
		groups = append(groups, artifact.Group{BenchmarkID: i + 1, WallTime: artifact.Float(wall), Point: artifact.Point{PointType: artifact.Decode, BatchSize: 1, TotalKVReadTokens: i + 2}})
	}
	if err := artifact.WriteFile(path, map[string]any{"artifact_type": "merged", "run_id": "ab", "status": status, "results": []int{}, "iteration_groups": groups}); err != nil {
		t.Fatal(err)
	}
}

func TestJudge(t *testing.T) {
	ok, partial := outcome{}, outcome{Status: exitPartial}
	type step struct {
		walls  []float64 // nil: no document
		status string
		all    []outcome
		want   verdict // Text is a part
	}
	for _, c := range []struct {
		name  string
		args  string // of the limits
		steps []step
	}{
		{"all good", "", []step{{[]float64{1, 1}, "complete", []outcome{ok, ok}, verdict{More: true}}, {[]float64{1, 2}, "complete", []outcome{ok, ok}, verdict{More: true}},
			{[]float64{1, 1}, "complete", []outcome{ok, ok}, verdict{}}}},
		{"too wide", "limits", []step{{[]float64{1, 1}, "complete", []outcome{ok}, verdict{More: true}},
			{[]float64{1, 2}, "complete", []outcome{ok}, verdict{Code: 3, Text: "stopped after launch 2 of 3: 1 of 2 points (50.0 %) vary by more than 5 % between launches, and 2 % may"}}}},
		{"not too wide", "limits", []step{{[]float64{1, 1}, "complete", []outcome{ok}, verdict{More: true}}, {[]float64{1, 1.01}, "complete", []outcome{ok}, verdict{More: true}},
			{[]float64{1, 1}, "complete", []outcome{ok}, verdict{}}}},
		{"partial", "", []step{{[]float64{1}, "partial", []outcome{partial, partial}, verdict{More: true}}, {[]float64{1}, "complete", []outcome{ok, ok}, verdict{More: true}},
			{[]float64{1}, "complete", []outcome{ok, ok}, verdict{Code: 3, Text: "not every launch is complete"}}}},
		{"signal", "", []step{{[]float64{1}, "partial", []outcome{partial, {Status: exitPartial, Stopped: "terminated"}}, verdict{Code: 3, Text: "stopped by signal: terminated, in launch 1 of 3"}}}},
		{"signal before anything", "", []step{{nil, "", []outcome{{Status: 1, Stopped: "terminated"}}, verdict{Code: 1, Text: "launch 1: rank 0 ended with status 1"}}}},
		{"signal in the second launch", "", []step{{[]float64{1}, "complete", []outcome{ok}, verdict{More: true}},
			{nil, "", []outcome{{Status: 1, Stopped: "interrupt"}}, verdict{Code: 3, Text: "stopped by signal: interrupt, in launch 2 of 3"}}}},
		{"a killed rank", "", []step{{nil, "", []outcome{{Status: 1}, {Status: 137}, {Status: 143}}, verdict{Code: 137, Text: "launch 1: rank 1 ended with status 137"}}}},
		{"not started", "", []step{{nil, "", []outcome{{Status: 1}, {Status: 1, Failed: "no such file"}}, verdict{Code: 1, Text: "launch 1: rank 1: no such file"}}}},
		{"no document", "", []step{{nil, "", []outcome{ok}, verdict{Code: 1, Text: "launch-1/benchmark_merged.json"}}}},
	} {
		o := newOptions()
		o.repeat.Value = 3
		if c.args != "" {
			o.stopCV.Given, o.stopShare.Given = true, true
		}
		var out, errs bytes.Buffer
		dir := t.TempDir()
		r := &repetition{p: &program{stdout: &out, stderr: &errs}, o: o, base: filepath.Join(dir, "benchmark.json"), record: artifact.NewRepeat(3, "abba", o.stopCV.limit(), o.stopShare.limit())}
		for i, s := range c.steps {
			l := launch{Number: i + 1, Order: "a", Output: filepath.Join(dir, "launch-"+string(rune('1'+i)), "benchmark.json")}
			if s.walls != nil {
				if _, err := (&options{}).prepareOutput(l.Output, 0); err != nil {
					t.Fatal(err)
				}
				measuredAt(t, artifact.MergedPath(l.Output), s.status, s.walls...)
			}
			v := r.judge(l, s.all)
			if v.More != s.want.More || v.Code != s.want.Code || !strings.Contains(v.Text, s.want.Text) || s.want.Text == "" && v.Text != "" {
				t.Errorf("%s, launch %d: %+v, want %+v", c.name, i+1, v, s.want)
			}
		}
		if wide := strings.Contains(errs.String(), "decode batch_size 1 total_prefill_tokens 0 total_kv_read_tokens 3: CV 47.1 % over 2 launches"); wide != (c.name == "too wide") {
			t.Errorf("%s: stderr %q", c.name, errs.String())
		}
		if n := len(r.record.Launches); n > 0 && !strings.Contains(out.String(), "mean ms") && !strings.Contains(c.name, "no document") {
			t.Errorf("%s: no table of %d launches", c.name, n)
		}
	}
}

func TestApplyRepeat(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(o *options)
		env    map[string]string
		want   string
	}{
		{"plain", func(*options) {}, nil, ""},
		{"repeat", func(o *options) { o.repeat.Value = 3 }, nil, ""},
		{"limits alone", func(o *options) { o.stopCV.Given = true }, nil, "give --repeat 2 or more"},
		{"resume", func(o *options) { o.repeat.Value, o.resume = 2, "out" }, nil, "--repeat 2 and --resume out exclude each other"},
		{"serve and probe", func(o *options) { o.repeat.Value, o.serve, o.probePath = 2, "80", "p" }, nil, "--probe-path p exclude each other"},
		{"reverse abba", func(o *options) { o.repeat.Value, o.reverse = 2, true }, nil, "use --order same"},
		{"a launch", func(o *options) { o.repeat.Value = 3 }, map[string]string{keyLaunch: "2", keyLaunchOutput: "x.json", keyLaunchOrder: "b"}, ""},
		{"a wrong launch", func(*options) {}, map[string]string{keyLaunch: "two"}, "want the number of a launch"},
	} {
		o := newOptions()
		c.change(o)
		err := o.applyRepeat(func(name string) string { return c.env[name] })
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if c.name == "a launch" && (o.launch != 2 || o.repeat.Value != 1 || !o.reverse || o.outputPath != "x.json") {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
	o := newOptions()
	o.repeat.Value, o.stopShare.Given = 2, true
	if err := o.applyRepeat(func(string) string { return "" }); err != nil || o.stopCV.limit() == nil || *o.stopCV.limit() != 0.05 {
		t.Errorf("--stop-share alone: %v, CV %v", err, o.stopCV.limit())
	}
}
