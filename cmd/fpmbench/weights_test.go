package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/gpu/model/modeltest"
)

// checkpoint writes a small model of two layers and returns its folder.
func checkpoint(t *testing.T) string {
	t.Helper()
	const overrides = `{"vocab_size":96,"hidden_size":64,"intermediate_size":80}`
	g, err := model.Load("tiny", []byte(overrides))
	if err != nil {
		t.Fatal(err)
	}
	tensors, err := modeltest.Tensors(g, model.Random(0, g), "BF16")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := modeltest.WriteFolder(dir, "tiny", overrides, tensors, 2); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWeightsAreChecked(t *testing.T) {
	dir := checkpoint(t)
	for _, c := range []struct {
		name string
		args []string
		want string // in the dry run's output, or the reason of a refusal
		code int
	}{
		{"folder", []string{"--weights", dir}, "safetensors", 0},
		{"random", []string{"--weights", "random", "--weight-seed", "3"}, "random", 0},
		{"fewer layers than stored", []string{"--weights", dir, "--hf-overrides", `{"num_hidden_layers":1}`}, "layers from 1 on are ignored", 0},
		{"another model", []string{"--weights", dir, "--model", "tiny"}, "want [4096 256]", exit.Usage},
		{"seed of a checkpoint", []string{"--weights", dir, "--weight-seed", "3"}, "--weight-seed 3", exit.Usage},
		{"no folder", []string{"--weights", dir + "/absent", "--model", "tiny"}, "absent", exit.Usage},
		{"a layer more than stored", []string{"--weights", dir, "--hf-overrides", `{"num_hidden_layers":3}`}, "model.layers.2.", exit.Usage},
	} {
		if code, stdout, stderr := dry(t, nil, c.args...); code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: status %d, want %d and %q\n%s%s", c.name, code, c.code, c.want, stdout, stderr)
		}
	}
	if err := os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := dry(t, nil, "--weights", dir); code != exit.Usage || !strings.Contains(stderr, "model-00002-of-00002.safetensors") {
		t.Errorf("missing file: status %d: %s", code, stderr)
	}
}

// The document says where the weights came from.
func TestRunFromCheckpoint(t *testing.T) {
	dir, output := checkpoint(t), filepath.Join(t.TempDir(), "benchmark.json")
	points := filepath.Join(t.TempDir(), "points.json")
	if err := os.WriteFile(points, []byte(`{"schema_version":1,"prefill":[],"decode":[{"batch_size":2,"total_kv_read_tokens":64}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{"fpmbench", "--single", "--weights", dir, "--mode", "decode", "--points-file", points, "--output-path", output}, nil, &stdout, &stderr)
	text, err := os.ReadFile(output)
	if code != 0 || err != nil {
		t.Fatalf("status %d, %v: %s", code, err, stderr.String())
	}
	for _, want := range []string{`"weight_source":"safetensors"`, `"weight_seed":null`, dir} {
		if !strings.Contains(strings.ReplaceAll(string(text), `": `, `":`), want) {
			t.Errorf("the document does not have %s", want)
		}
	}
}
