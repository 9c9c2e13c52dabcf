package artifact

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckJournal(t *testing.T) {
	dir := t.TempDir()
	doc := run(t, 2)[1]
	write := func(name string, change func(points []JournalPoint)) string {
		path := filepath.Join(dir, name)
		w, err := CreateJournal(path, processOf(t, doc))
		if err != nil {
			t.Fatal(err)
		}
		points := pointsOf(run(t, 2)[1])
		change(points)
		for _, p := range points {
			if err := w.Append(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.journal", func([]JournalPoint) {})
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	torn, begun := filepath.Join(dir, "torn.journal"), filepath.Join(dir, "begun.journal")
	if err := errors.Join(os.WriteFile(torn, whole[:len(whole)-3], 0o644), os.WriteFile(begun, whole[:20], 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path     string
		want     string // of the first violation
		note     string
		notReady bool
	}{
		{good, "", "DP rank 1 of 2, mode agg, 3 of 3 points by 1 processes", false},
		{torn, "", "2 of 3 points by 1 processes, run " + doc.RunID + ", and ", false},
		{begun, "without a whole record", "", true},
		{write("wall.journal", func(p []JournalPoint) { p[1].Group.WallTime++ }), "$.iteration_groups[1].wall_time: want exactly the slowest rank's", "", false},
		{write("twice.journal", func(p []JournalPoint) { p[2] = p[1] }), "stands in an earlier group too", "", false},
		{write("regime.journal", func(p []JournalPoint) { p[0].KVSeedRegime = RegimeRealPrefix }), "$.results[0]", "", false},
	} {
		r := CheckFiles([]string{c.path})[0]
		first := ""
		for _, v := range r.Violations {
			if c.want != "" && strings.Contains(v.String(), c.want) {
				first = c.want
			}
		}
		if r.Kind != "journal" || first != c.want || c.want == "" && len(r.Violations) > 0 || !strings.Contains(r.Note, c.note) || r.NotReady != c.notReady {
			t.Errorf("%s: %+v, want %q", filepath.Base(c.path), r, c.want)
		}
	}
	j, err := ReadJournal(good)
	if err != nil {
		t.Fatal(err)
	}
	if rows := j.Summary(); len(rows) != 3 || rows[2].KVTokens != 128 || rows[2].WallTime != doc.Groups[2].WallTime {
		t.Errorf("rows %+v", rows)
	}
	if IsJournal(dir) || IsJournal(filepath.Join(dir, "nowhere")) || !IsJournal(good) {
		t.Error("journals are not told from what is none")
	}
}
