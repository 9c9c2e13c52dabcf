package artifact

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRepeatDocument(t *testing.T) {
	r := NewRepeat(3, "abba", nil, nil)
	for _, walls := range [][]float64{{1, 2, 3}, {1.1, 2}} {
		if err := r.Add(launched(t, walls, false), "a"); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "repeat.json")
	if err := WriteFile(path, r); err != nil {
		t.Fatal(err)
	}
	read, err := ReadRepeat(path)
	if err != nil || jsonText(t, read) != jsonText(t, r) {
		t.Fatalf("%v\n%s\n%s", err, jsonText(t, read), jsonText(t, r))
	}
	var table bytes.Buffer
	if err := read.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(table.String(), "\n")
	for i, want := range []string{"type batch new kv launches mean ms CV % fastest slowest", "prefill 2 5 0 2 1050.000 6.7 1000.000 1100.000",
		"decode 2 2 64 2 2000.000 0.0 2000.000 2000.000", "decode 2 2 128 1 3000.000 - 3000.000 3000.000"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("line %d: got %q, want %q", i, got, want)
		}
	}
	if !strings.Contains(read.Title(), "2 of 3 launches, order abba, 3 points") {
		t.Errorf("title %q", read.Title())
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, fresh, want string }{
		{"as written", "x", "x", ""},
		{"another mean", `"mean": 1.05`, `"mean": 1.06`, "$.points[0].mean: the wall times give 1.05"},
		{"a spread of one", `"cv": null`, `"cv": 0.5`, "$.points[2].cv: want null, got 0.5"},
		{"no spread", "\"cv\": 0.0\n", "\"cv\": null\n", ".cv: want a number, got null"},
		{"a time too few", ",\n        null", "", "$.points[2].wall_times: want one for each of 2 launches, got 1"},
		{"another order", `"abba"`, `"baab"`, "$.order: want one of abba, same"},
	} {
		if err := os.WriteFile(path, bytes.Replace(whole, []byte(c.old), []byte(c.fresh), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		report := CheckFiles([]string{path})[0]
		if c.want == "" && (!report.Good() || report.Kind != "repeat") || c.want != "" && (len(report.Violations) != 1 || !strings.Contains(report.Violations[0].String(), c.want)) {
			t.Errorf("%s: %+v, want %q", c.name, report, c.want)
		}
	}
	if err := os.WriteFile(path, []byte(`{"schema": "other"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRepeat(path); err == nil || !strings.Contains(err.Error(), `schema "other"`) {
		t.Errorf("another schema: %v", err)
	}
}

// Whatever is read as a document about several launches can be shown, and reads back as it was.
func FuzzRepeat(f *testing.F) {
	f.Add([]byte(`{"schema":"fpmrun.repeat","schema_version":1,"asked_launches":2,"order":"abba","stop_reason":"enough","launches":[{"run_id":"a","order":"a","path":"x"}],` +
		`"points":[{"point_key":"k","point_type":"decode","batch_size":2,"wall_times":[0.5,null],"mean":0.5,"cv":null}]}`))
	f.Add([]byte(`{"schema":"fpmrun.repeat","schema_version":1,"points":[{"wall_times":null,"cv":-0.0}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRepeat("repeat.json", text)
		if err != nil {
			return
		}
		if err := r.WriteTable(io.Discard); err != nil || r.Title() == "" {
			t.Fatal(err)
		}
		again, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseRepeat("repeat.json", again)
		if err != nil || !cmp.Equal(r, back, cmpopts.IgnoreUnexported(Repeat{})) {
			t.Fatalf("%s (%v)", again, err)
		}
	})
}
