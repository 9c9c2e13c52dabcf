//go:build linux && cgo

package cuda

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/gpu/model/modeltest"
)

// oracleModels are computed by scripts/oracle.py too: the dense families at full width and cut depth, and a whole small model.
var oracleModels = []struct{ name, preset, overrides string }{
	{"llama-3.1-8b", "llama-3.1-8b", `{"num_hidden_layers":4}`},
	{"mistral-7b-v0.1", "mistral-7b-v0.1", `{"num_hidden_layers":4,"sliding_window":37}`},
	{"qwen2.5-7b", "qwen2.5-7b", `{"num_hidden_layers":4}`},
	{"qwen3-8b", "qwen3-8b", `{"num_hidden_layers":4}`},
	{"qwen3-0.6b", "qwen3-0.6b", `{}`},
}

// oracleRow is a position of the prompt whose logits were computed one way.
type oracleRow struct {
	Way      string `json:"way"`
	Position int    `json:"position"`
}

// oracleRun computes positions of a prompt in several ways.
type oracleRun struct {
	t      *testing.T
	e      *Engine
	tokens []uint32
	next   int32 // block
	rows   []oracleRow
	logits []byte
}

// blocks are n that no sequence has.
func (o *oracleRun) blocks(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		o.next++
		list[i] = o.next
	}
	return list
}

// step runs rows and keeps the logits of those that are asked for.
func (o *oracleRun) step(way string, rows []gpu.Row, keep ...int) {
	o.t.Helper()
	logits, out := run(o.t, o.e, &gpu.Step{Rows: rows})
	for _, r := range keep {
		best := 0
		for i, bits := range logits[r] {
			o.logits = binary.LittleEndian.AppendUint32(o.logits, bits)
			if math.Float32frombits(bits) > math.Float32frombits(logits[r][best]) {
				best = i
			}
		}
		if out.Sampled[r] != uint32(best) {
			o.t.Errorf("%s: row %d sampled %d, the largest logit is that of %d", way, r, out.Sampled[r], best)
		}
		o.rows = append(o.rows, oracleRow{way, rows[r].Computed + rows[r].New() - 1})
	}
}

// all is every way: prefills of several lengths, in chunks, on a prefix of another sequence, token by token, and decode in batches.
func (o *oracleRun) all() {
	n := len(o.tokens)
	whole := o.blocks(n/16 + 1)
	for _, length := range []int{1, 16, 17, n / 2} {
		o.step("prefill", []gpu.Row{{Tokens: o.tokens[:length], Blocks: o.blocks(length/16 + 1)}}, 0)
	}
	o.step("prefill", []gpu.Row{{Tokens: o.tokens, Blocks: whole}}, 0)
	chunks, at := o.blocks(n/16+1), 0
	for _, length := range []int{1, 10, 18, n - 29} {
		o.step("chunked prefill", []gpu.Row{{Tokens: o.tokens[at : at+length], Computed: at, Blocks: chunks}}, 0)
		at += length
	}
	for _, hit := range []int{16, 48} {
		table := append(slices.Clone(whole[:hit/16]), o.blocks(n/16+1)...)
		o.step("prefix hit", []gpu.Row{{Tokens: o.tokens[hit:], Computed: hit, Blocks: table}}, 0)
	}
	decoded := o.blocks(n/16 + 1)
	o.step("", []gpu.Row{{Tokens: o.tokens[:n-12], Blocks: decoded}})
	for at := n - 12; at < n; at++ {
		o.step("decode after prefill", []gpu.Row{{Tokens: o.tokens[at : at+1], Computed: at, Blocks: decoded}}, 0)
	}
	batches := []int{3, 8, 64, 256}
	if testing.Short() {
		batches = batches[:1]
	}
	for _, batch := range batches {
		var rows []gpu.Row
		for r := range batch {
			computed := 16 * (1 + r%4) // the first place of a block of its own
			rows = append(rows, gpu.Row{Slot: r, Tokens: o.tokens[computed : computed+1], Computed: computed, Blocks: append(slices.Clone(whole[:computed/16]), o.blocks(1)...)})
		}
		o.step(fmt.Sprintf("batch of %d", batch), rows, 0, 1, batch/2, batch-2, batch-1)
	}
}

// TestOracleFolders writes, below $FPM_ORACLE_DIR, a checkpoint of each oracle model with our logits beside it, for scripts/oracle.py.
func TestOracleFolders(t *testing.T) {
	root := os.Getenv("FPM_ORACLE_DIR")
	if root == "" {
		t.Skip("FPM_ORACLE_DIR does not name a folder to write to")
	}
	needGPU(t)
	for _, m := range oracleModels {
		t.Run(m.name, func(t *testing.T) {
			overrides := m.overrides
			if testing.Short() && m.name != oracleModels[0].name {
				t.Skip("one model is enough to see that folders are written")
			}
			if testing.Short() {
				overrides = `{` + small + `"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32}`
			}
			g := geometry(t, m.preset, overrides)
			folder := filepath.Join(root, m.name)
			tensors, err := modeltest.Tensors(g, model.Random(5, g), "BF16")
			if err != nil {
				t.Fatal(err)
			}
			if err := modeltest.WriteFolder(folder, m.preset, overrides, tensors, 2); err != nil {
				t.Fatal(err)
			}
			c, err := model.OpenCheckpoint(folder, g)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			cfg := configuration(g)
			cfg.Weights, cfg.Blocks, cfg.MaxSeqs = c, 500, 256
			o := &oracleRun{t: t, e: openEngine(t, cfg), tokens: ids(g, 1, 72)}
			o.all()
			text, err := json.MarshalIndent(map[string]any{"model": m.name, "preset": m.preset, "overrides": overrides, "seed": 5, "vocab": g.Vocab, "golden": false,
				"tokens": o.tokens, "rows": o.rows}, "", " ")
			if err := errors.Join(err, os.WriteFile(filepath.Join(folder, "oracle.json"), text, 0o644), os.WriteFile(filepath.Join(folder, "logits.f32"), o.logits, 0o644)); err != nil {
				t.Fatal(err)
			}
		})
	}
}
