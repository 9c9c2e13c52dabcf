package test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/rank/tokenizer/tokenizertest"
)

// textFiles writes a tokenizer and a data set into a folder, and makes a token pool of them.
func textFiles(t *testing.T, dir string) (tokenizer, dataset, pool string) {
	t.Helper()
	for name, text := range map[string][]byte{"tokenizer.json": tokenizertest.JSON(tokenizertest.Qwen, nil), "conversations.json": tokenizertest.Conversations(200, 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	succeed(t, dir, "fpmbench", "tokenize", "--tokenizer", "tokenizer.json", "--dataset", "conversations.json", "--output", "text.pool")
	return "tokenizer.json", "conversations.json", "text.pool"
}

// Decode of a mixture of experts over KV that was computed from text, from a token pool and from a tokenizer: every point is real, and a point's prompts are
// the same with both.
func TestDecodeOverRealKV(t *testing.T) {
	dir := t.TempDir()
	tokenizer, dataset, pool := textFiles(t, dir)
	manifest := `{"schema_version":1,"prefill":[],"decode":[{"batch_size":2,"total_kv_read_tokens":90},{"batch_size":4,"total_kv_read_tokens":150},{"batch_size":2,"total_kv_read_tokens":33}]}`
	if err := os.WriteFile(filepath.Join(dir, "points.json"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	prompts := map[string]string{} // of rank 0, by point
	for _, c := range []struct {
		dp, tp int
		text   []string
	}{
		{2, 1, []string{"--token-pool", pool}},
		{4, 1, []string{"--tokenizer", tokenizer, "--dataset", dataset}},
		{2, 2, []string{"--token-pool", pool}},
		{1, 2, []string{"--token-pool", pool}},
	} {
		t.Run("dp"+strconv.Itoa(c.dp)+"tp"+strconv.Itoa(c.tp), func(t *testing.T) {
			out := filepath.Join(dir, t.Name())
			args := []string{"-np", strconv.Itoa(c.dp * c.tp), "fpmbench", "--model", "tiny-moe", "--dp", strconv.Itoa(c.dp), "--tp", strconv.Itoa(c.tp), "--expert-parallel",
				"--mode", "decode", "--points-file", "points.json", "--output-path", filepath.Join(out, "benchmark.json")}
			succeed(t, dir, "fpmrun", append(args, c.text...)...)
			files, all := rankFiles(out, c.dp)
			check(t, all...)
			for rank, path := range files {
				doc := read(t, path)
				w := doc.KVWarm
				if !w.Enabled || !*w.WarmEligible || w.SkipReason != nil || w.PointsRealKV != 3 || w.PointsFakeFallback != 0 || len(w.Stages) != 2 || w.Dataset.Conversations == 0 {
					t.Errorf("rank %d: kvwarm %+v", rank, w)
				}
				for _, row := range doc.Results {
					if row.KVSeedRegime != artifact.RegimeRealKV || !row.Point.Has(artifact.ReasonRealKV) || row.FPMs[0].Measurement.Estimate.Method != artifact.UpperMedian {
						t.Errorf("rank %d: point %d: regime %s, %v", rank, row.Point.BenchmarkID, row.KVSeedRegime, row.Point.SampleReasons)
					}
					if rank > 0 {
						continue
					}
					m := row.FPMs[0].Measurement
					if before, ok := prompts[m.PointKey]; ok && before != *m.Prompts.SHA256 {
						t.Errorf("point %d has other prompts than with another text flag or topology", row.Point.BenchmarkID)
					}
					prompts[m.PointKey] = *m.Prompts.SHA256
				}
			}
		})
	}
}

// Prompts of text, and a run whose text is too short for one of them.
func TestTextPrompts(t *testing.T) {
	dir := t.TempDir()
	_, _, pool := textFiles(t, dir)
	for _, kind := range []string{artifact.ContentPool, artifact.ContentChain} {
		out := filepath.Join(dir, kind)
		succeed(t, dir, "fpmrun", "-np", "2", "fpmbench", "--points-file", points(t), "--prefill-content", kind, "--token-pool", pool, "--output-path", filepath.Join(out, "benchmark.json"))
		files, all := rankFiles(out, 2)
		check(t, all...)
		if doc := read(t, files[1]); doc.Protocol.SyntheticContent != kind || !doc.Valid {
			t.Errorf("%s: protocol %+v, valid %v", kind, doc.Protocol, doc.Valid)
		}
	}
	r := execute(t, dir, "fpmrun", "-np", "2", "fpmbench", "--prefill-content", "sharegpt")
	if r.status != 2 || !strings.Contains(r.stderr, "tokenizer_unavailable") {
		t.Errorf("text content without a text: status %d\n%s", r.status, r.stderr)
	}
}
