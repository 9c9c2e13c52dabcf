package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/rank/tokenizer"
	"github.com/fpmrun/fpmrun/rank/tokenizer/tokenizertest"
)

// textFiles are a tokenizer, a data set, one of which no conversation is taken, and a token pool of the first.
func textFiles(t *testing.T) (tok, data, empty, pool string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tok, data = write("tokenizer.json", tokenizertest.JSON(tokenizertest.Qwen, nil)), write("data.json", tokenizertest.Conversations(120, 1))
	empty, pool = write("empty.json", []byte("[]")), filepath.Join(dir, "text.pool")
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"fpmbench", "tokenize", "--tokenizer", tok, "--dataset", data, "--output", pool}, nil, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), pool) {
		t.Fatalf("status %d: %s%s", code, stdout.String(), stderr.String())
	}
	return tok, data, empty, pool
}

// What the text flags lead to for a mixture of experts: the reason to skip real KV, "" for none.
func TestTextFlags(t *testing.T) {
	tok, data, empty, pool := textFiles(t)
	g, err := model.Load("tiny-moe", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		text   textOptions
		length int
		want   string
	}{
		{"nothing", textOptions{}, 128, "tokenizer_unavailable: neither --tokenizer nor --token-pool was given"},
		{"tokenizer only", textOptions{tokenizer: tok}, 128, "dataset_unavailable: --dataset was not given"},
		{"empty data set", textOptions{tokenizer: tok, dataset: empty}, 128, "dataset_empty"},
		{"tokenizer and data set", textOptions{tokenizer: tok, dataset: data}, 128, ""},
		{"token pool", textOptions{tokenPool: pool}, 128, ""},
		{"a worker that only executes steps", textOptions{tokenPool: "/none", unread: true}, 1 << 20, ""},
		{"longer sequences than the text", textOptions{tokenPool: pool}, 1 << 20, "content_too_shallow: the text has "},
	} {
		o := newOptions()
		o.text, o.expertParallel, o.maxModelLen.Value = c.text, true, c.length
		loaded, missing, err := o.text.open(g)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := o.skipReason(g, loaded, missing); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Text flags that cannot work end the program before anything runs.
func TestTextFlagRefusals(t *testing.T) {
	tok, data, empty, pool := textFiles(t)
	vocab := `{"vocab_size":200}`
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"pool and tokenizer", []string{"--token-pool", pool, "--tokenizer", tok}, "--token-pool " + pool + " holds token ids already"},
		{"absent tokenizer", []string{"--tokenizer", "/none"}, "/none"},
		{"absent data set", []string{"--tokenizer", tok, "--dataset", "/none"}, "--dataset"},
		{"tokenizer that is none", []string{"--tokenizer", data}, "--tokenizer"},
		{"pool that is none", []string{"--token-pool", data}, "--token-pool"},
		{"text of another model", []string{"--token-pool", pool, "--hf-overrides", vocab}, "has a vocabulary of 200; use the model's own"},
		{"tokenizer of another model", []string{"--tokenizer", tok, "--dataset", data, "--hf-overrides", vocab}, "has a vocabulary of 200"},
		{"content without a data set", []string{"--tokenizer", tok, "--prefill-content", "sharegpt"}, "dataset_unavailable"},
		{"content of an empty data set", []string{"--tokenizer", tok, "--dataset", empty, "--prefill-content", "sharegpt_chain"}, "dataset_empty"},
		{"tag without a pool", []string{"--token-pool", pool, "--prefill-content", "sharegpt_chain", "--pool-tag", "x"}, "no text pool to redraw"},
	} {
		if code, _, stderr := dry(t, nil, c.args...); code != exit.Usage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, want 2 and %q\n%s", c.name, code, c.want, stderr)
		}
	}
	for _, args := range [][]string{{"--token-pool", pool, "--prefill-content", "sharegpt", "--pool-tag", "x"}, {"--tokenizer", tok, "--dataset", data, "--prefill-content", "sharegpt_chain"}} {
		if code, _, stderr := dry(t, nil, args...); code != 0 {
			t.Errorf("%v: status %d\n%s", args, code, stderr)
		}
	}
	for want, args := range map[string][]string{
		"synthetic: dense_model_content_insensitive": {"--token-pool", pool},
		"synthetic: the warm-up is switched off":     {"--token-pool", pool, "--kv-warmup", "off"},
		"real text, where the chains cover a point":  {"--token-pool", pool, "--model", "tiny-moe", "--expert-parallel"},
	} {
		if _, stdout, _ := dry(t, nil, args...); !strings.Contains(stdout, want) {
			t.Errorf("%v: want %q in\n%s", args, want, stdout)
		}
	}
	t.Setenv("DYN_BENCH_KV_WARMUP_SHA256", strings.Repeat("0", 64))
	if code, _, stderr := dry(t, nil, "--tokenizer", tok, "--dataset", data); code != exit.Usage || !strings.Contains(stderr, "has the SHA-256") {
		t.Errorf("another digest: status %d\n%s", code, stderr)
	}
}

func TestTokenize(t *testing.T) {
	path, _, _, pool := textFiles(t)
	tok, err := tokenizer.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := encodeLines(tok, strings.NewReader("\"\"\n\"ab\"\n\"in\\u0000\"\n"), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || lines[0] != "[]" || strings.Count(lines[1], ",") != 1 || strings.Count(lines[2], ",") != 1 {
		t.Errorf("lines %q", lines)
	}
	if err := encodeLines(tok, strings.NewReader("\"a\"\n7\n"), &out); err == nil || !strings.Contains(err.Error(), "string 2") {
		t.Errorf("a number: %v", err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"no tokenizer", nil, "want --tokenizer", exit.Usage},
		{"no output", []string{"--tokenizer", path, "--dataset", path}, "want --tokenizer", exit.Usage},
		{"negative size", []string{"--tokenizer", path, "--max-tokens", "-1"}, "--max-tokens -1", exit.Usage},
		{"argument", []string{"--tokenizer", path, "x"}, `unexpected argument "x"`, exit.Usage},
		{"data set that is none", []string{"--tokenizer", path, "--dataset", path, "--output", pool + "2"}, "--dataset", exit.Usage},
		{"output that is there", []string{"--tokenizer", path, "--dataset", filepath.Join(filepath.Dir(path), "data.json"), "--output", pool}, "file exists", 1},
	} {
		var stdout, stderr strings.Builder
		code := run(t.Context(), append([]string{"fpmbench", "tokenize"}, c.args...), nil, &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: status %d, want %d and %q\n%s", c.name, code, c.code, c.want, stderr.String())
		}
	}
}
