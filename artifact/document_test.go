package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// hostile is text that no reader takes: its place in the value, as a path and a byte, and what is said of it.
var hostile = []struct {
	name, value, path string
	at                int
	want              string
}{
	{"not a number", `NaN`, "", 0, "want a value, got 'N'"},
	{"infinity", `[1, -Infinity]`, "[1]", 5, "want a value, got 'I'"},
	{"a huge number", `{"x": [0, 1e999]}`, ".x[1]", 10, "number 1e999 is beyond the range of a 64-bit float"},
	{"a huge integer", `[` + strings.Repeat("9", 400) + `]`, "[0]", 1, "is beyond the range of a 64-bit float"},
	{"a key twice", `{"b": 1, "c": {}, "b": 2}`, ".b", 18, `key "b" comes twice`},
	{"a key twice, once escaped", `{"b": 1, "\u0062": 2}`, ".b", 9, `key "b" comes twice`},
	{"a key twice of many", `{` + numbered(40) + `"7": 0}`, ".7", 1 + len(numbered(40)), `key "7" comes twice`},
	{"depth", `[` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `]`, "[0]", -1, "nested deeper than 1000"},
	{"not UTF-8", "{\"k\": \"ab\xff\"}", ".k", 9, "a string is not UTF-8"},
	{"a key that is not UTF-8", "{\"k\xc3(\": 1}", `["k`, 3, "a string is not UTF-8"},
	{"a control character", "[\"a\nb\"]", "[0]", 3, "control character 0xa in a string"},
	{"an escape", `["a\x"]`, "[0]", 3, "a backslash before 'x'"},
	{"digits of an escape", `["\u00g0"]`, "[0]", 2, `\u without four hexadecimal digits`},
	{"a leading zero", `{"n": 01}`, "", 7, "want ',', got '1'"},
	{"no comma", `{"n": 1 "m": 2}`, "", 8, "want ',', got '\"'"},
	{"no colon", `{"n" 1}`, "", 5, "want ':', got '1'"},
	{"a comma too many", `[1, ]`, "[1]", 4, "want a value, got ']'"},
	{"a word", `[nil]`, "[0]", 1, "want null"},
	{"a list closed as an object", `[1}`, "", 2, "want ',', got '}'"},
}

// numbered are the first members of an object, with numbers as keys.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"` + sprint(i) + `": 0, `)
	}
	return b.String()
}

// Whatever member it is in, hostile JSON is refused with its path and its byte in the file, or in what the file is compressed from.
func TestHostileJSONHasPosition(t *testing.T) {
	whole, err := json.MarshalIndent(run(t, 1)[0], "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []struct{ before, after, path string }{
		{`{"artifact_type": "rank", "later": `, `}`, "$.later"},
		{strings.TrimSuffix(string(whole), "\n}") + ",\n  \"later\": ", "\n}\n", "$.later"},
		splitAt(whole, `"results": [`, `"new": `, `, `, "$.results[0].new"),
		splitAt(whole, `"iteration_groups": [`, `"new": `, `, `, "$.iteration_groups[0].new"),
		splitAt(whole, `"raw_fpms": [`, `"new": `, `, `, "$.results[0].fpms[0].benchmark_measurement.raw_fpms[0].new"),
		{strings.TrimSuffix(string(whole), "\n}") + ", \"fpmrun\": {\"processes\": [], \"points\": [", "]}\n}\n", "$.fpmrun.points[0]"},
	} {
		for _, c := range hostile {
			text := []byte(place.before + c.value + place.after)
			for _, name := range []string{"hostile.json", "hostile.json.zst"} {
				path := filepath.Join(t.TempDir(), name)
				written := text
				if strings.HasSuffix(name, ".zst") {
					written = encoder.EncodeAll(text, nil)
				}
				if err := os.WriteFile(path, written, 0o600); err != nil {
					t.Fatal(err)
				}
				checkHostile(t, path, place.path+c.path, len(place.before)+c.at, c.at >= 0, c.name, c.want)
			}
		}
	}
}

// splitAt cuts a document behind the first brace after a mark, where a member can be put in.
func splitAt(whole []byte, mark, before, after, path string) struct{ before, after, path string } {
	at := bytes.Index(whole, []byte(mark))
	at += bytes.IndexByte(whole[at:], '{') + 1
	return struct{ before, after, path string }{string(whole[:at]) + before, after + string(whole[at:]), path}
}

func checkHostile(t *testing.T, file, path string, at int, exact bool, name, want string) {
	t.Helper()
	_, err := ReadDocument(file)
	var place *JSONError
	if !errors.As(err, &place) || errors.Is(err, ErrNotReady) {
		t.Fatalf("%s at %s: %v, want a place", name, path, err)
	}
	if place.File != file || !strings.HasPrefix(place.Path, path) || exact && place.Offset != int64(at) || !strings.Contains(place.Err.Error(), want) {
		t.Errorf("%s: %v\nwant %s: byte %d: %s", name, err, path, at, want)
	}
	if r := CheckFiles([]string{file})[0]; r.NotReady || len(r.Violations) != 1 || r.Violations[0] != (Violation{place.Path, place.at()}) {
		t.Errorf("%s: check says %v of %v", name, r.Violations, err)
	}
	if _, err := ReadRepeat(file); err == nil || !errors.As(err, &place) || exact && place.Offset != int64(at) {
		t.Errorf("%s as a repeat: %v, want byte %d", name, err, at)
	}
}

// A text that is cut anywhere is not ready, and says where it ends.
func TestCutAnywhere(t *testing.T) {
	text := []byte(`{"a": [1, -2.5e+3, "x\u00e9\\ é", true, null], "results": [{"b": false}], "c": {}}`)
	for i := range text {
		_, err := ParseDocument("cut.json", slices.Clip(text[:i]))
		if !errors.Is(err, ErrNotReady) || i > 0 && !strings.Contains(err.Error(), "ends at byte "+sprint(i)+" inside $") {
			t.Errorf("%s: %v", text[:i], err)
		}
	}
	if d, err := ParseDocument("whole.json", text); err != nil || len(d.results) != 1 {
		t.Error(err)
	}
	for _, more := range []string{"{}", "\x00", "]"} {
		if _, err := ParseDocument("more.json", append(slices.Clone(text), more...)); err == nil || !strings.Contains(err.Error(), "byte "+sprint(len(text))+": more data") {
			t.Errorf("%q behind the document: %v", more, err)
		}
	}
}

// A member of the wrong type is named with its place in the file, wherever it is, also in a document that shares its groups with another.
func TestWrongTypeHasPosition(t *testing.T) {
	whole, err := json.MarshalIndent(run(t, 1)[0], "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	groups := bytes.Index(whole, []byte(`"iteration_groups"`))
	for _, c := range []struct {
		key, value, path, want string
		last                   bool // the last place of the key
	}{
		{"benchmark_id", `2.0`, "$.iteration_groups[0].benchmark_id", "want an integer of at most 64 bits, got 2.0", false},
		{"batch_size", `true`, "$.iteration_groups[0].point.batch_size", "want an integer of at most 64 bits, got true", false},
		{"batch_size", `9223372036854775808`, "$.iteration_groups[0].point.batch_size", "want an integer of at most 64 bits, got 9223372036854775808", false},
		{"scheduled_requests", `[1]`, "$.iteration_groups[0].rank_results[0].fpms[0].scheduled_requests", "want an object, got [1]", false},
		{"sample_reasons", `{"a": "b"}`, "$.iteration_groups[0].point.sample_reasons", `want a list, got {"a":"b"}`, false},
		{"worker_id", `7`, "$.iteration_groups[0].rank_results[0].fpms[0].worker_id", "want a string, got 7", false},
		{"wall_time", `"long"`, "$.iteration_groups[2].rank_results[0].fpms[0].benchmark_measurement.raw_fpms[1].wall_time", `want a number, got "long"`, true},
	} {
		at := groups + bytes.Index(whole[groups:], []byte(`"`+c.key+`": `))
		if c.last {
			at = bytes.LastIndex(whole, []byte(`"`+c.key+`": `))
		}
		at += len(c.key) + 4
		s := scanner{text: whole, pos: at}
		if _, err := s.value(); err != nil {
			t.Fatal(err)
		}
		text := slices.Concat(whole[:at], []byte(c.value), whole[s.pos:])
		d, err := ParseDocument("typed.json", text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Observe()
		var place *JSONError
		if !errors.As(err, &place) || place.Path != c.path || place.Offset != int64(at) || place.Err.Error() != c.want {
			t.Errorf("%v\nwant %s: byte %d: %s", err, c.path, at, c.want)
		}
	}
}

// Of ranks that share their groups' text, a fault behind the groups has its byte in the file that it is in.
func TestSiblingFaultHasPosition(t *testing.T) {
	docs := run(t, 2)
	var texts [2][]byte
	for i, d := range docs {
		var err error
		if texts[i], err = json.Marshal(d); err != nil {
			t.Fatal(err)
		}
	}
	first, err := ParseDocument("a", texts[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(texts[1], []byte(`"missing_phases":`)) + len(`"missing_phases":`)
	text := slices.Concat(texts[1][:at], []byte("1e999"), texts[1][at+len("[]"):])
	var place *JSONError
	if _, _, err := first.Sibling("b", text); !errors.As(err, &place) || place.Offset != int64(at) || place.Path != "$.missing_phases" {
		t.Errorf("%v, want byte %d", err, at)
	}
	at = bytes.Index(texts[1], []byte(`"benchmark_id":1,`)) + len(`"benchmark_id":`)
	if at > bytes.Index(texts[1], []byte(`"iteration_groups"`)) {
		t.Fatal("no row before the groups")
	}
	before := slices.Concat(texts[1][:at], []byte("1.5"), texts[1][at+1:])
	behind := append(texts[1][:len(texts[1])-1:len(texts[1])-1], `,"fpmrun":{"processes":1}}`...)
	for _, c := range []struct {
		name string
		text []byte
		read func(*Document) error
		at   int
		path string
	}{
		{"before the groups", before, func(d *Document) error { _, err := d.row(0); return err }, at, "$.results[0].point.benchmark_id"},
		{"behind the groups", behind, func(d *Document) error { _, _, err := d.hostEvidence(); return err }, len(behind) - len("1}}"), "$.fpmrun.processes"},
	} {
		d, own, err := first.Sibling("b", c.text)
		if err != nil || !own {
			t.Fatalf("%s: own %v, %v", c.name, own, err)
		}
		if err := c.read(d); !errors.As(err, &place) || place.File != "b" || place.Path != c.path || place.Offset != int64(c.at) {
			t.Errorf("%s: %v, want %s, byte %d", c.name, err, c.path, c.at)
		}
	}
}
