package cpu

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/gpu/model/modeltest"
)

// oracleSeed is the seed of the weights that scripts/oracle.py is given.
const oracleSeed = 5

// oracleModel is a model that scripts/oracle.py computes too.
type oracleModel struct {
	Name      string `json:"model"`
	Preset    string `json:"preset"`
	Overrides string `json:"overrides"`
	tokens    int
	full      bool // too large for a golden file
}

var oracleModels = []oracleModel{
	{Name: "llama", Preset: "llama-3.1-8b", Overrides: llamaCut},
	{Name: "llama-linear-biases", Preset: "llama-3.1-8b", Overrides: `{` + small + heads + `,"attention_bias":true,"mlp_bias":true,"rope_theta":null,"rope_scaling":null,"rope_parameters":{"rope_type":"linear","factor":4.0,"rope_theta":10000.0}}`},
	{Name: "mistral", Preset: "mistral-7b-v0.1", Overrides: mistralCut},
	{Name: "mistral-nemo", Preset: "mistral-nemo-2407", Overrides: `{` + small + `"num_attention_heads":4,"num_key_value_heads":2,"head_dim":48}`},
	{Name: "qwen2", Preset: "qwen2.5-7b", Overrides: qwen2Cut},
	{Name: "qwen2-window", Preset: "qwen2.5-7b", Overrides: `{"num_hidden_layers":4,"hidden_size":128,"intermediate_size":192,"vocab_size":307,"initializer_range":0.08,"num_attention_heads":4,"num_key_value_heads":2,"use_sliding_window":true,"sliding_window":6,"max_window_layers":2}`},
	{Name: "qwen3", Preset: "qwen3-0.6b", Overrides: qwen3Cut},
	{Name: "qwen3-yarn", Preset: "qwen3-8b", Overrides: `{` + small + heads + `,"max_position_embeddings":128,"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32}}`},
	{Name: "qwen3-moe", Preset: "qwen3-30b-a3b", Overrides: qwen3MoECut},
	{Name: "qwen3-moe-normalised", Preset: "tiny-moe", Overrides: `{` + small + heads + `}`},
	{Name: "mixtral", Preset: "mixtral-8x7b", Overrides: mixtralCut},
	{Name: "deepseek-v3", Preset: "deepseek-v3", Overrides: deepseekCut},
	{Name: "qwen3-0.6b", Preset: "qwen3-0.6b", Overrides: `{}`, tokens: 40, full: true},
}

func (m *oracleModel) prompt(g *model.Geometry) []uint32 {
	n := m.tokens
	if n == 0 {
		n = 72
	}
	return prompt(g, 1, n)
}

// oracleRow is the logits of one position, computed one way.
type oracleRow struct {
	Way      string `json:"way"`
	Position int    `json:"position"`
	logits   []float32
}

// oracleRows computes positions of a prompt in one prefill each, in chunks, and by decode after a prefill.
func oracleRows(t *testing.T, g *model.Geometry, src model.Source, tokens []uint32) []oracleRow {
	t.Helper()
	cfg := config(g)
	cfg.Weights, cfg.Threads = src, 0
	w := start(t, cfg, 1)
	var rows []oracleRow
	keep := func(way string, position int) {
		rows = append(rows, oracleRow{way, position, slices.Clone(w.logits(0))})
	}
	n := len(tokens)
	for _, length := range []int{1, 16, 17, n / 2, n} {
		s := w.open(nil, length)
		w.step(gpu.Row{Tokens: tokens[:length], Blocks: s.Blocks()})
		keep("prefill", length-1)
		s.Release()
	}
	s := w.open(nil, n)
	at := 0
	for _, chunk := range []int{1, 10, 18, n - 29} {
		w.step(gpu.Row{Tokens: tokens[at : at+chunk], Computed: at, Blocks: s.Blocks()})
		at += chunk
		keep("chunked prefill", at-1)
	}
	s.Release()
	s = w.open(nil, n)
	w.step(gpu.Row{Tokens: tokens[:n-12], Blocks: s.Blocks()})
	for at := n - 12; at < n; at++ {
		w.step(gpu.Row{Tokens: tokens[at : at+1], Computed: at, Blocks: s.Blocks()})
		keep("decode after prefill", at)
	}
	return rows
}

// TestOracleFolders writes, below $FPM_ORACLE_DIR, a checkpoint of each oracle model with our logits beside it, for
// scripts/oracle.py.
func TestOracleFolders(t *testing.T) {
	root := os.Getenv("FPM_ORACLE_DIR")
	if root == "" {
		t.Skip("FPM_ORACLE_DIR does not name a folder to write to")
	}
	for _, m := range oracleModels {
		t.Run(m.Name, func(t *testing.T) {
			g := geometry(t, m.Preset, m.Overrides)
			src := model.Random(oracleSeed, g)
			folder := filepath.Join(root, m.Name)
			tensors, err := modeltest.Tensors(g, src, "BF16")
			if err != nil {
				t.Fatal(err)
			}
			if err := modeltest.WriteFolder(folder, m.Preset, m.Overrides, tensors, 1); err != nil {
				t.Fatal(err)
			}
			// Our logits are of the weights as they were written.
			c, err := model.OpenCheckpoint(folder, g)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			tokens := m.prompt(g)
			rows := oracleRows(t, g, c, tokens)
			var logits []byte
			for _, r := range rows {
				for _, v := range r.logits {
					logits = binary.LittleEndian.AppendUint32(logits, math.Float32bits(v))
				}
			}
			text, err := json.MarshalIndent(struct {
				oracleModel
				Seed   int         `json:"seed"`
				Vocab  int         `json:"vocab"`
				Golden bool        `json:"golden"`
				Tokens []uint32    `json:"tokens"`
				Rows   []oracleRow `json:"rows"`
			}{m, oracleSeed, g.Vocab, !m.full, tokens, rows}, "", " ")
			if err := errors.Join(err, os.WriteFile(filepath.Join(folder, "oracle.json"), text, 0o644), os.WriteFile(filepath.Join(folder, "logits.f32"), logits, 0o644)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// golden is what scripts/oracle.py --golden wrote of one model: logits that transformers computed in float32.
type golden struct {
	Command   string   `json:"command"`
	Overrides string   `json:"overrides"`
	Seed      int      `json:"seed"`
	Tokens    []uint32 `json:"tokens"`
	Positions []int    `json:"positions"`
	Logits    string   `json:"logits"` // (positions, vocab), little-endian float32 in base64
}

// The logits of PyTorch's implementation of each family, in the files of testdata/oracle.
func TestAgainstTransformers(t *testing.T) {
	const folder = "testdata/oracle"
	for _, m := range oracleModels {
		if m.full {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(folder, m.Name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var want golden
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			g := geometry(t, m.Preset, m.Overrides)
			if want.Overrides != m.Overrides || want.Seed != oracleSeed || !slices.Equal(want.Tokens, m.prompt(g)) {
				t.Fatalf("the golden logits are of another model, seed or prompt; make them again: %s", want.Command)
			}
			data, err := base64.StdEncoding.DecodeString(want.Logits)
			if err != nil || len(data) != 4*g.Vocab*len(want.Positions) || len(want.Positions) == 0 {
				t.Fatalf("%d bytes of logits for %d positions: %v", len(data), len(want.Positions), err)
			}
			w := start(t, config(g), 1)
			for i, p := range want.Positions {
				row := make([]float64, g.Vocab)
				for j := range row {
					row[j] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*(i*g.Vocab+j):])))
				}
				s := w.open(nil, p+1)
				w.step(gpu.Row{Tokens: want.Tokens[:p+1], Blocks: s.Blocks()})
				w.near(want.Command, 0, row, 1e-5)
				s.Release()
			}
		})
	}
}
