package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// overviewText is a merged document with evidence of two ranks' hosts, in which something stands out.
func overviewText(t testing.TB) []byte {
	t.Helper()
	docs := run(t, 2)
	points := quiet(7)
	points[3].Steps[1].CollectorCycles = 1
	for _, d := range docs {
		d.FPMRun = map[string]any{"launch": map[string]int{"rank": 1}, "points": points}
	}
	texts := make([]*Document, len(docs))
	for rank, d := range docs {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if texts[rank], err = ParseDocument(d.Config.OutputPath, text); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := Merge(texts, "merged.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(merged, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// pieceByPiece reads a document so many bytes at a time.
func pieceByPiece(text []byte, piece int) (*Overview, error) {
	w := newWalker(bytes.NewReader(text), "walked.json")
	w.piece = piece
	return w.overview()
}

// However the text comes in pieces, a walk finds what the whole document holds.
func TestOverview(t *testing.T) {
	text := overviewText(t)
	doc, err := ParseDocument("whole.json", text)
	if err != nil {
		t.Fatal(err)
	}
	want := &Overview{Title: doc.Title()}
	var ranks map[string]History
	if err := json.Unmarshal(doc.members["fpmrun"], &ranks); err != nil {
		t.Fatal(err)
	}
	for _, rank := range []string{"0", "1"} {
		want.Causes = append(want.Causes, causeLines("rank "+rank+", ", ranks[rank].Points)...)
	}
	if len(ranks) != 2 || len(want.Causes) != 2 {
		t.Fatalf("%q of %d ranks", want.Causes, len(ranks))
	}
	for i := range doc.groups {
		g, err := doc.group(i)
		if err != nil {
			t.Fatal(err)
		}
		want.Points = append(want.Points, Summarize([]Group{*g})...)
	}
	for _, piece := range []int{1, 2, 3, 7, 64, 1000, 4096, walkPiece} {
		if got, err := pieceByPiece(text, piece); err != nil || !cmp.Equal(got, want) {
			t.Errorf("pieces of %d bytes: %v\n%s", piece, err, cmp.Diff(want, got))
		}
	}
	dir := t.TempDir()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"a.json": text, "a.json.zst": encoder.EncodeAll(text, nil)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadOverview(path); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(want, got))
		}
		if err := os.WriteFile(path, text[:len(text)-20], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadOverview(path); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "ends at byte ") {
			t.Errorf("%s, cut: %v", name, err)
		}
	}
	// A rank's own document has the evidence without a rank's number.
	rank := `{"fpmrun": {"points": ` + jsonText(t, quietWithCycle()) + `}, "artifact_type": "rank"}`
	if got, err := pieceByPiece([]byte(rank), 5); err != nil || !slices.Equal(got.Causes, []string{"point 4, forward 31: the Go collector ran 1 times"}) {
		t.Errorf("%v (%v)", got, err)
	}
}

func quietWithCycle() []PointEvidence {
	points := quiet(7)
	points[3].Steps[1].CollectorCycles = 1
	return points
}

// A walk in pieces refuses what the reader of whole documents refuses, at the same place.
func TestOverviewRefusesAsDocumentsAre(t *testing.T) {
	text := overviewText(t)
	whole := string(text)
	var bad []string
	for _, mark := range []string{`"later": 1`, `"results": [`, `"iteration_groups": [`, `"points": [`, `"raw_fpms": [`} {
		if mark == `"later": 1` {
			whole = strings.Replace(whole, "{", `{"later": 1,`, 1)
		}
		at := strings.Index(whole, mark) + len(mark)
		for _, c := range hostile {
			if mark == `"later": 1` {
				bad = append(bad, whole[:at-1]+c.value+whole[at:])
			} else {
				bad = append(bad, whole[:at]+c.value+","+whole[at:])
			}
		}
	}
	for i := 0; i < len(text); i += 1 + len(text)/97 {
		bad = append(bad, string(text[:i]))
	}
	for _, more := range []string{"{}", "\x00", "]"} {
		bad = append(bad, string(text)+more)
	}
	bad = append(bad, "", " \n", "[]", "1", `{"a": 1, "a": 2}`, `{"a" 1}`, `{a: 1}`, `{"a": 1,}`, `{"a": [1,]}`, `{"results": 1e999}`, "{")
	for _, text := range bad {
		_, want := ParseDocument("walked.json", []byte(text))
		if want == nil {
			t.Fatalf("%.200s is no bad document", text)
		}
		for _, piece := range []int{61, 5000} {
			_, got := pieceByPiece([]byte(text), piece)
			if got == nil || errors.Is(got, ErrNotReady) != errors.Is(want, ErrNotReady) {
				t.Fatalf("pieces of %d bytes: %v, want %v", piece, got, want)
			}
			if got.Error() != want.Error() {
				t.Errorf("pieces of %d bytes:\ngot  %v\nwant %v", piece, got, want)
			}
		}
	}
	_, err := pieceByPiece([]byte(`{"artifact_type": "merged", "iteration_groups": [{"benchmark_id": 1.5}]}`), 8)
	var place *JSONError
	if !errors.As(err, &place) || place.Path != "$.iteration_groups[0].benchmark_id" || place.Offset != 66 {
		t.Errorf("%v", err)
	}
	if _, err := pieceByPiece([]byte(`{"schema": "x"}`), 8); err == nil || !strings.Contains(err.Error(), "is no rank or merged document (x)") {
		t.Errorf("%v", err)
	}
}

// longDocument is a document of so many groups that each hold a thousand hashes of prompts. Its reader notes the most memory that was in use.
type longDocument struct {
	parts []string // the head, the separator and the group, the foot
	n     int      // groups that are left
	rest  string
	most  uint64
}

func newLongDocument(n int) *longDocument {
	hashes := strings.Repeat(fmt.Sprintf(`{"slot": 0, "num_tokens": 4, "sha256": "%064d"}, `, 7), 1000)
	group := `{"benchmark_id": 1, "wall_time": 1.5, "point": {"point_type": "decode", "batch_size": 2}, "rank_results": [{"dp_rank": 0, "fpms": [{"wall_time": 1.5, ` +
		`"benchmark_measurement": {"prompts": {"requests": [` + strings.TrimSuffix(hashes, ", ") + `]}, "raw_fpms": [{"wall_time": 1.5}], "estimate": {"method": "single_step", "raw_sample_indices": [0]}}}]}]}`
	return &longDocument{parts: []string{`{"artifact_type": "merged", "iteration_groups": [`, group, `]}`}, n: n, rest: `{"artifact_type": "merged", "iteration_groups": [`}
}

func (d *longDocument) Read(b []byte) (int, error) {
	if d.rest == "" && d.n >= 0 {
		switch d.n--; {
		case d.n > 0:
			d.rest = d.parts[1] + ","
		case d.n == 0:
			d.rest = d.parts[1] + d.parts[2]
			runtime.GC()
		}
		if d.n%16 == 0 {
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			d.most = max(d.most, now.HeapAlloc)
		}
	}
	if d.rest == "" {
		return 0, io.EOF
	}
	n := copy(b, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// A document that is ten times as long needs no more memory but for the rows.
func TestOverviewNeedsNoMoreMemory(t *testing.T) {
	used := func(n int) uint64 {
		d := newLongDocument(n)
		w := newWalker(d, "long.json")
		o, err := w.overview()
		if err != nil || len(o.Points) != n || o.Points[n-1].Samples != 1 {
			t.Fatalf("%d groups: %v", n, err)
		}
		return d.most
	}
	short, long := used(32), used(320) // 3 and 30 MB of text
	if limit := short + 4<<20; long > limit {
		t.Errorf("%d bytes in use for 32 groups, %d for 320; want at most %d", short, long, limit)
	}
}

// Whatever a walk accepts, the reader of whole documents accepts; what is cut short is cut short for both.
func FuzzOverview(f *testing.F) {
	f.Add([]byte(`{"artifact_type":"rank","iteration_groups":[{"benchmark_id":1,"rank_results":[{"fpms":[{"wall_time":1.0}]}]}],"fpmrun":{"points":[{"steps":[{}]}]}}`), 7)
	f.Add([]byte(`{"artifact_type":"merged","fpmrun":{"0":{"points":[]}},"results":[{}],"later":[1e999]}`), 1)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		_, err := pieceByPiece(text, 1+piece&0xfff)
		_, want := ParseDocument("walked.json", text)
		if err == nil && want != nil {
			t.Fatalf("%q: accepted in pieces, but %v", text, want)
		}
		if want != nil && errors.Is(want, ErrNotReady) != errors.Is(err, ErrNotReady) && !strings.Contains(err.Error(), "want ") {
			t.Fatalf("%q: %v in pieces, whole: %v", text, err, want)
		}
	})
}
