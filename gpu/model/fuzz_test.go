package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// Any config.json is refused with a ConfigError or gives a geometry whose sizes can be computed with.
func FuzzConfig(f *testing.F) {
	paths, err := filepath.Glob("presets/*.json")
	if err != nil || len(paths) == 0 {
		f.Fatalf("presets: %v, %v", paths, err)
	}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte(nil))
	}
	f.Add([]byte(`{"model_type":"llama"}`), []byte(`{"rope_scaling":{"rope_type":"yarn","factor":4}}`))
	f.Add([]byte(`{}`), []byte(`{"layer_types":["full_attention"],"quantization_config":{"quant_method":"fp8"}}`))
	f.Fuzz(func(t *testing.T, text, overrides []byte) {
		g, err := Parse("fuzzed", text, overrides)
		if err != nil {
			var usage *ConfigError
			if !errors.As(err, &usage) || g != nil {
				t.Fatalf("geometry %v, error %v, want a ConfigError alone", g, err)
			}
			return
		}
		if len(g.Windows) != g.Layers || g.KVHeads < 1 || g.Heads%g.KVHeads != 0 || g.KVBytesPerToken(2, 1) <= 0 {
			t.Fatalf("%d windows, %d heads, %d KV heads in %d layers", len(g.Windows), g.Heads, g.KVHeads, g.Layers)
		}
		for i, v := range g.Rope.Frequencies() {
			if !(v > 0) || math.IsInf(v, 0) {
				t.Fatalf("frequency %d is %v in %+v", i, v, g.Rope)
			}
		}
		if s := g.SoftmaxScale(); !(s > 0) || math.IsInf(s, 0) {
			t.Fatalf("softmax scale %v", s)
		}
		if g.Experts == nil || g.Layers*g.Experts.Count < 1<<12 {
			if n := g.Parameters(); n <= 0 {
				t.Fatalf("%d parameters", n)
			}
		}
	})
}

// Any file is refused with a WeightsError or has tensors that lie inside it, none in another.
func FuzzSafetensors(f *testing.F) {
	add := func(header string, data int) {
		text := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		f.Add(append(append(text, header...), make([]byte, data)...))
	}
	add(`{}`, 0)
	add(`{"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"__metadata__":{"format":"pt"}}`, 12)
	add(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[],"data_offsets":[8,10]}} `, 10)
	add(`{"a":{"dtype":"F4","shape":[4294967296,4294967296],"data_offsets":[0,9]}}`, 9)
	add(`{"a":{"dtype":"I64","shape":[-1],"data_offsets":[-9,-1]}}`, 1)
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, err := readHeader("fuzzed", bytes.NewReader(file), int64(len(file)))
		if err != nil {
			var weights *WeightsError
			if !errors.As(err, &weights) {
				t.Fatalf("error %v, want a WeightsError", err)
			}
			return
		}
		before := int64(8)
		for _, s := range tensors {
			if s.Begin < before || s.End < s.Begin || s.End > int64(len(file)) {
				t.Fatalf("tensor %q lies at %d to %d in %d bytes, behind %d", s.Name, s.Begin, s.End, len(file), before)
			}
			before = s.End
			if decode := floats[s.Type]; decode != nil {
				decode(make([]float32, (s.End-s.Begin)*8/int64(dtypeBits[s.Type])), file[s.Begin:s.End])
			}
		}
	})
}
