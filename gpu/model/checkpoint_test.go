package model_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/gpu/model/modeltest"
)

const (
	tinyCut = `{"vocab_size":96,"hidden_size":64,"intermediate_size":80}`
	tied    = `{"vocab_size":96,"hidden_size":64,"intermediate_size":80,"tie_word_embeddings":true}`
)

func load(t *testing.T, name, overrides string) *model.Geometry {
	t.Helper()
	g, err := model.Load(name, []byte(overrides))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tensors are the random weights of a geometry.
func tensors(t *testing.T, g *model.Geometry, kind string) []modeltest.Tensor {
	t.Helper()
	list, err := modeltest.Tensors(g, model.Random(3, g), kind)
	must(t, err)
	return list
}

// folder writes a checkpoint and returns its folder.
func folder(t *testing.T, overrides string, list []modeltest.Tensor, files int) string {
	t.Helper()
	dir := t.TempDir()
	must(t, modeltest.WriteFolder(dir, "tiny", overrides, list, files))
	return dir
}

func open(t *testing.T, dir string, g *model.Geometry) *model.Checkpoint {
	t.Helper()
	c, err := model.OpenCheckpoint(dir, g)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// refused opens a checkpoint that must be refused with an error that names all of want.
func refused(t *testing.T, dir string, g *model.Geometry, want ...string) {
	t.Helper()
	c, err := model.OpenCheckpoint(dir, g)
	var weights *model.WeightsError
	if !errors.As(err, &weights) {
		if c != nil {
			c.Close()
		}
		t.Fatalf("error %v, want a WeightsError naming %q", err, want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not name %s", err, w)
		}
	}
}

func TestCheckpointHoldsWhatWasWritten(t *testing.T) {
	g := load(t, "tiny", tinyCut)
	for _, kind := range []string{"BF16", "F16", "F32"} {
		for _, files := range []int{1, 3} {
			list := tensors(t, g, kind)
			for _, tensor := range list {
				for i, v := range tensor.Values {
					tensor.Values[i] = float32(int(v*1024)) / 1024 // exact in every type
				}
			}
			c := open(t, folder(t, tinyCut, list, files), g)
			if c.Kind() != "safetensors" || len(c.Ignored()) != 0 {
				t.Errorf("%s: kind %q, ignored %q", kind, c.Kind(), c.Ignored())
			}
			for _, tensor := range list {
				cols := 1
				if len(tensor.Shape) == 2 {
					cols = tensor.Shape[1]
				}
				for _, r := range []model.Rect{
					{Rows: tensor.Shape[0], Cols: cols},
					{Row: 7, Col: cols / 2, Rows: 9, Cols: cols - cols/2},
					{},
				} {
					got := make([]float32, r.Rows*r.Cols)
					must(t, c.Fill(tensor.Name, r, got))
					for i := range r.Rows {
						at := (r.Row+i)*cols + r.Col
						if !slices.Equal(got[i*r.Cols:(i+1)*r.Cols], tensor.Values[at:at+r.Cols]) {
							t.Fatalf("%s in %d files: %s %+v: row %d differs from what was written", kind, files, tensor.Name, r, i)
						}
					}
				}
			}
			if err := c.Fill("model.norm.weight", model.Rect{Row: 63, Rows: 2, Cols: 1}, make([]float32, 2)); err == nil {
				t.Error("a rectangle outside its tensor was filled")
			}
		}
	}
}

func TestCase16HeadAndEmbedding(t *testing.T) {
	g, full := load(t, "tiny", tied), load(t, "tiny", tinyCut)
	with, without := tensors(t, full, "BF16"), tensors(t, g, "BF16")
	if len(with) != len(without)+1 {
		t.Fatalf("%d tensors untied, %d tied", len(with), len(without))
	}
	if c := open(t, folder(t, tied, without, 1), g); len(c.Ignored()) != 0 {
		t.Errorf("without a head: ignored %q", c.Ignored())
	}
	if c := open(t, folder(t, tied, with, 1), g); len(c.Ignored()) != 1 || !strings.Contains(c.Ignored()[0], model.HeadName) {
		t.Errorf("tied, but with a head: ignored %q, want one sentence about %s", c.Ignored(), model.HeadName)
	}
	refused(t, folder(t, tinyCut, without, 1), full, model.HeadName, "tie_word_embeddings")
	if n := load(t, "qwen3-0.6b", "").Parameters(); n != 596_049_920 {
		t.Errorf("qwen3-0.6b has %d parameters, want 596049920: the shared embedding counts once", n)
	}
}

func TestCase17Shards(t *testing.T) {
	g := load(t, "tiny", tinyCut)
	list := tensors(t, g, "BF16")

	dir := folder(t, tinyCut, list, 2)
	must(t, os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")))
	refused(t, dir, g, "model-00002-of-00002.safetensors", dir)

	dir = folder(t, tinyCut, list, 2)
	wrong := tensors(t, g, "F32")
	for _, tensor := range wrong {
		clear(tensor.Values)
	}
	must(t, modeltest.Write(filepath.Join(dir, "consolidated.safetensors"), wrong))
	must(t, os.WriteFile(filepath.Join(dir, "model-q4.safetensors"), []byte("no such format"), 0o644))
	c := open(t, dir, g)
	got := make([]float32, 64)
	must(t, c.Fill(model.EmbedName, model.Rect{Rows: 1, Cols: 64}, got))
	if !slices.Equal(got, list[0].Values[:64]) {
		t.Error("a file outside the index was read")
	}

	edit := func(change func(weightMap map[string]any)) string {
		dir := folder(t, tinyCut, list, 2)
		path := filepath.Join(dir, "model.safetensors.index.json")
		text, err := os.ReadFile(path)
		must(t, err)
		var index map[string]map[string]any
		must(t, json.Unmarshal(text, &index))
		change(index["weight_map"])
		text, err = json.Marshal(index)
		must(t, err)
		must(t, os.WriteFile(path, text, 0o644))
		return dir
	}
	refused(t, edit(func(m map[string]any) { delete(m, model.NormName) }), g, model.NormName, "does not list it")
	refused(t, edit(func(m map[string]any) { m[model.NormName] = "model-00001-of-00002.safetensors" }), g, model.NormName, "it does not")
	refused(t, edit(func(m map[string]any) { m[model.NormName] = "../model-00001-of-00002.safetensors" }), g, model.NormName, "../model")
	refused(t, edit(func(m map[string]any) { m[model.NormName] = 7 }), g, "index.json")
	refused(t, edit(func(m map[string]any) { clear(m) }), g, "weight_map")
}

// rewrite changes the header and data of a file.
func rewrite(t *testing.T, path string, change func(header map[string]map[string]any, length *uint64, data []byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	n := binary.LittleEndian.Uint64(text)
	var header map[string]map[string]any
	must(t, json.Unmarshal(text[8:8+n], &header))
	length := uint64(0)
	data := change(header, &length, text[8+n:])
	head, err := json.Marshal(header)
	must(t, err)
	if length == 0 {
		length = uint64(len(head))
	}
	must(t, os.WriteFile(path, slices.Concat(binary.LittleEndian.AppendUint64(nil, length), head, data), 0o644))
}

func TestCase18BrokenFiles(t *testing.T) {
	g := load(t, "tiny", tinyCut)
	list := tensors(t, g, "BF16")
	const last = model.HeadName
	for _, c := range []struct {
		name   string
		change func(header map[string]map[string]any, length *uint64, data []byte) []byte
		want   []string
	}{
		{"cut short", func(_ map[string]map[string]any, _ *uint64, data []byte) []byte { return data[:len(data)-1<<10] }, []string{last, "cut short"}},
		{"too long", func(_ map[string]map[string]any, _ *uint64, data []byte) []byte { return append(data, 0) }, []string{"the file at"}},
		{"header of 2^64-4 bytes", func(_ map[string]map[string]any, n *uint64, data []byte) []byte { *n = 1<<64 - 4; return data }, []string{"18446744073709551612"}},
		{"header of 2^63 bytes", func(_ map[string]map[string]any, n *uint64, data []byte) []byte { *n = 1 << 63; return data }, []string{"9223372036854775808"}},
		{"range shorter than shape", func(h map[string]map[string]any, _ *uint64, data []byte) []byte {
			h[last]["shape"] = []int{97, 64}
			return data
		}, []string{last, "[97 64]"}},
		{"begin behind end", func(h map[string]map[string]any, _ *uint64, data []byte) []byte {
			h[last]["data_offsets"] = []int{4, 2}
			return data
		}, []string{last, "[4, 2]"}},
		{"negative begin", func(h map[string]map[string]any, _ *uint64, data []byte) []byte {
			h[model.EmbedName]["data_offsets"] = []int{-12288, 0}
			return data
		}, []string{model.EmbedName, "[-12288, 0]"}},
		{"overlap", func(h map[string]map[string]any, _ *uint64, data []byte) []byte {
			h[last]["data_offsets"] = h[model.EmbedName]["data_offsets"]
			return data
		}, []string{"overlap"}},
		{"a product that wraps around", func(h map[string]map[string]any, _ *uint64, data []byte) []byte {
			h[last]["shape"] = []int{1 << 32, 1 << 32, 1}
			return data
		}, []string{last, "larger than any file"}},
		{"negative size", func(h map[string]map[string]any, _ *uint64, data []byte) []byte {
			h[last]["shape"] = []int{-96, -64}
			return data
		}, []string{last, "negative"}},
		{"unknown type", func(h map[string]map[string]any, _ *uint64, data []byte) []byte { h[last]["dtype"] = "Q4"; return data }, []string{last, "Q4"}},
		{"one offset", func(h map[string]map[string]any, _ *uint64, data []byte) []byte {
			h[last]["data_offsets"] = []int{4}
			return data
		}, []string{last, "data_offsets"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, tinyCut, list, 1)
			file := filepath.Join(dir, "model.safetensors")
			rewrite(t, file, c.change)
			refused(t, dir, g, append(c.want, file)...)
		})
	}
	for name, text := range map[string]string{
		"empty": "", "seven bytes": "1234567", "no object": "\x02\x00\x00\x00\x00\x00\x00\x00[]",
		"two objects": "\x04\x00\x00\x00\x00\x00\x00\x00{}{}", "half an object": "\x01\x00\x00\x00\x00\x00\x00\x00{",
		"one name twice": "\x13\x00\x00\x00\x00\x00\x00\x00{\"a\":null,\"a\":null}",
	} {
		dir := folder(t, tinyCut, list, 1)
		file := filepath.Join(dir, "model.safetensors")
		must(t, os.WriteFile(file, []byte(text), 0o644))
		t.Run(name, func(t *testing.T) { refused(t, dir, g, file) })
	}
}

// A checkpoint of another model than config.json's is refused, however alike they are.
func TestCheckpointOfAnotherModel(t *testing.T) {
	g := load(t, "tiny", tinyCut)
	list := tensors(t, g, "BF16")
	extra := func(name, kind string, shape ...int) string {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return folder(t, tinyCut, append(slices.Clone(list), modeltest.Tensor{Name: name, Type: kind, Shape: shape, Values: make([]float32, n)}), 1)
	}
	refused(t, extra("model.layers.0.self_attn.q_proj.bias", "BF16", 64), g, "model.layers.0.self_attn.q_proj.bias", "no such tensor")
	refused(t, extra("model.layers.01.self_attn.q_proj.bias", "BF16", 64), g, "no such tensor")
	if c := open(t, extra("model.layers.2.mlp.gate_proj.weight", "BF16", 80, 64), g); len(c.Ignored()) != 1 || !strings.Contains(c.Ignored()[0], "num_hidden_layers") {
		t.Errorf("a layer beyond the model: ignored %q", c.Ignored())
	}
	if c := open(t, extra("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 16), g); len(c.Ignored()) != 1 {
		t.Errorf("stored frequencies: ignored %q", c.Ignored())
	}
	refused(t, folder(t, tinyCut, list, 1), load(t, "tiny", `{"vocab_size":97,"hidden_size":64,"intermediate_size":80}`), model.EmbedName, "[96 64]", "[97 64]")
	refused(t, folder(t, tinyCut, nil, 1), g, "more tensors like these")
	refused(t, t.TempDir(), g, "neither model.safetensors.index.json nor model.safetensors")
	refused(t, filepath.Join(t.TempDir(), "absent"), g, "absent")
	// A type that cannot be read: the file is well formed, with a byte for each value.
	dir := folder(t, tinyCut, list, 1)
	rewrite(t, filepath.Join(dir, "model.safetensors"), func(h map[string]map[string]any, _ *uint64, data []byte) []byte {
		offsets := h[model.HeadName]["data_offsets"].([]any)
		half := offsets[0].(float64) + 96*64
		h[model.HeadName]["dtype"], h[model.HeadName]["data_offsets"] = "F8_E5M2", []any{offsets[0], half}
		return data[:int(half)]
	})
	refused(t, dir, g, model.HeadName, "F8_E5M2", "model.safetensors")
}

// A file that is cut short while it is in use is an error, neither zeros nor the end of the process.
func TestFileCutShortMeanwhile(t *testing.T) {
	g := load(t, "tiny", tinyCut)
	list := tensors(t, g, "F32")
	whole := model.Rect{Rows: 96, Cols: 64}
	for _, mapped := range []bool{false, true} {
		dir := folder(t, tinyCut, list, 1)
		c := open(t, dir, g)
		if mapped {
			must(t, c.Fill(model.EmbedName, whole, make([]float32, 96*64)))
		}
		must(t, os.Truncate(filepath.Join(dir, "model.safetensors"), 4096))
		err := c.Fill(model.HeadName, whole, make([]float32, 96*64))
		var weights *model.WeightsError
		if !errors.As(err, &weights) || weights.Tensor != model.HeadName {
			t.Errorf("mapped before %v: error %v, want a WeightsError naming %s", mapped, err, model.HeadName)
		}
	}
}

// A worker's part of a tensor of 64 GiB is read without the rest: the file is a hole but for the last rows.
func TestOnlyTheShardIsRead(t *testing.T) {
	const rows, cols = 1 << 24, 1024
	const overrides = `{"vocab_size":16777216,"hidden_size":1024,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":4,"intermediate_size":4,"num_hidden_layers":1,"tie_word_embeddings":true}`
	g := load(t, "tiny", overrides)
	var header strings.Builder
	end := int64(0)
	for tensor := range g.Tensors() {
		shape, err := json.Marshal(tensor.Shape)
		must(t, err)
		if header.Len() > 0 {
			header.WriteByte(',')
		}
		begin := end
		end += 4 * tensor.Elements()
		fmt.Fprintf(&header, "%q:{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%d,%d]}", tensor.Name, shape, begin, end)
	}
	text := "{" + header.String() + "}"
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	must(t, err)
	defer f.Close()
	start := int64(8 + len(text))
	if err := f.Truncate(start + end); err != nil {
		t.Skipf("this file system has no holes of %d bytes: %v", end, err)
	}
	_, err = f.WriteAt(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), 0)
	must(t, err)
	// The embedding comes first; 1.5 in its last value.
	_, err = f.WriteAt([]byte{0, 0, 0xC0, 0x3F}, start+4*(rows*cols-1))
	must(t, err)
	c := open(t, dir, g)
	got := make([]float32, 4*cols)
	must(t, c.Fill(model.EmbedName, model.Rect{Row: rows - 4, Rows: 4, Cols: cols}, got))
	if got[len(got)-1] != 1.5 || got[0] != 0 {
		t.Errorf("the last rows end with %v, want 1.5", got[len(got)-1])
	}
}

func TestClosedCheckpoint(t *testing.T) {
	g := load(t, "tiny", tinyCut)
	c, err := model.OpenCheckpoint(folder(t, tinyCut, tensors(t, g, "BF16"), 2), g)
	must(t, err)
	must(t, c.Close())
	if err := c.Fill(model.NormName, model.Rect{Rows: 64, Cols: 1}, make([]float32, 64)); err == nil {
		t.Error("a closed checkpoint was read")
	}
	must(t, c.Close())
}

// The keys that Config reads are those of the file, with the overrides.
func TestConfigKeys(t *testing.T) {
	keys, err := model.Config("tiny", []byte(`{"vocab_size":96,"mlp_bias":null}`))
	must(t, err)
	if string(keys["vocab_size"]) != "96" || keys["mlp_bias"] != nil || string(keys["model_type"]) != `"llama"` {
		t.Errorf("keys %v", slices.Sorted(maps.Keys(keys)))
	}
}
