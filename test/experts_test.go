package test

import (
	"strconv"
	"strings"
	"testing"
)

// A mixture of experts whose experts are spread over all ranks, with synthetic and with computed prefixes.
func TestExpertParallel(t *testing.T) {
	for _, c := range []struct {
		dp, tp int
		flags  []string
	}{
		{2, 1, nil},
		{2, 1, []string{"--prefill-real-seed", "on"}},
		{2, 2, []string{"--prefill-real-seed", "on"}},
		{4, 2, nil}, // an expert on each rank
	} {
		t.Run("dp"+strconv.Itoa(c.dp)+"tp"+strconv.Itoa(c.tp)+strings.Join(c.flags, ""), func(t *testing.T) {
			dir := t.TempDir()
			args := []string{"-np", strconv.Itoa(c.dp * c.tp), "fpmbench", "--model", "tiny-moe", "--dp", strconv.Itoa(c.dp), "--tp", strconv.Itoa(c.tp), "--expert-parallel",
				"--points-file", points(t), "--output-path", "benchmark.json"}
			succeed(t, dir, "fpmrun", append(args, c.flags...)...)
			files, all := rankFiles(dir, c.dp)
			check(t, all...)
			for rank, path := range files {
				doc := read(t, path)
				p := doc.Engine.Parallel
				if !doc.Valid || len(doc.Groups) != 9 || !p.EnableExpertParallel || p.All2AllBackend == nil || p.TensorParallelSize != c.tp {
					t.Errorf("rank %d: valid %v, %d groups, parallel %+v", rank, doc.Valid, len(doc.Groups), p)
				}
				// Every condition of real KV holds but the text.
				if reason := doc.KVWarm.SkipReason; reason == nil || !strings.HasPrefix(*reason, "tokenizer_unavailable: ") {
					t.Errorf("rank %d: kvwarm.skip_reason %v", rank, reason)
				}
			}
			checkProbe(t, all[len(all)-1], c.dp, c.tp)
		})
	}
}
