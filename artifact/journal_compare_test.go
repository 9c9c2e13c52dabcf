package artifact

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever must be the same is compared, and a difference is told with both values.
func TestJournalCompare(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(doc *Rank, p *JournalProcess)
		want   string
	}{
		{"nothing", func(*Rank, *JournalProcess) {}, ""},
		{"the launch", func(_ *Rank, p *JournalProcess) { p.Launch, p.Process, p.StartedAt = Launch{RunID: "x"}, 9, "later" }, ""},
		{"grid", func(_ *Rank, p *JournalProcess) { p.GridDigest, p.Expected = "00ff", 4 }, "number of points is 3 in the journal and 4 now"},
		{"grid digest", func(_ *Rank, p *JournalProcess) { p.GridDigest = "00ff" }, "and 00ff now"},
		{"seed", func(doc *Rank, _ *JournalProcess) { doc.Protocol.ContentSeed = "7" }, `content seed is "0" in the journal and "7" now`},
		{"protocol", func(doc *Rank, _ *JournalProcess) { doc.Protocol.Preparation.WarmupIterations = 9 }, "measurement_protocol.preparation.warmup_iterations is 5 in the journal and 9 now"},
		{"engine", func(doc *Rank, _ *JournalProcess) { doc.Engine.Versions.FPMRun = "2" }, `engine.versions.fpmrun is "1" in the journal and "2" now`},
		{"engine part", func(doc *Rank, _ *JournalProcess) { doc.Engine.Attention = nil }, "in the journal and absent now"},
		{"rank of the engine", func(doc *Rank, _ *JournalProcess) { other := 1; doc.Engine.Parallel.DataParallelRank = &other }, ""},
		{"text", func(_ *Rank, p *JournalProcess) { p.Text = json.RawMessage(`{"sha256":"00ff"}`) }, `text is null in the journal and {"sha256":"00ff"} now`},
		{"rank", func(_ *Rank, p *JournalProcess) { p.Rank = 1 }, "DP rank is 0 in the journal and 1 now"},
		{"size", func(_ *Rank, p *JournalProcess) { p.Size = 4 }, "DP size is 2 in the journal and 4 now"},
	} {
		then := processOf(t, run(t, 2)[0])
		doc := run(t, 2)[0]
		var patch JournalProcess
		c.change(doc, &patch)
		now := processOf(t, doc)
		patched := now
		c.change(doc, &patched)
		patched.Protocol, patched.Engine, patched.ContentSeed = now.Protocol, now.Engine, now.ContentSeed
		err := then.Compare(&patched)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if err != nil && c.name == "seed" && strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("the seed is told twice: %v", err)
		}
	}
}
