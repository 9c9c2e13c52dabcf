package artifact

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// journalOf writes the journal of a rank of a run, and returns the bytes after each of its records: the process and its points.
func journalOf(t testing.TB, doc *Rank, path string) (ends []int) {
	t.Helper()
	w, err := CreateJournal(path, processOf(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	ends = []int{int(w.size)}
	for i, p := range pointsOf(doc) {
		if err := w.Append(p); err != nil {
			t.Fatalf("point %d: %v", i, err)
		}
		ends = append(ends, int(w.size))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return ends
}

func processOf(t testing.TB, doc *Rank) JournalProcess {
	t.Helper()
	engine, err := EngineIdentity(doc.Engine)
	if err != nil {
		t.Fatal(err)
	}
	protocol, err := json.Marshal(doc.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	return JournalProcess{Format: JournalFormat, Process: 1, Launch: Launch{RunID: doc.RunID, Version: "1", Host: "h", PID: 7}, StartedAt: *doc.Timing.StartedAt,
		Rank: doc.DP.Rank, Size: doc.DP.Size, Mode: doc.Config.Mode, GridDigest: *doc.GridDigest, Expected: len(doc.Results), ContentSeed: doc.Protocol.ContentSeed,
		Protocol: protocol, Text: json.RawMessage("null"), Engine: engine}
}

func pointsOf(doc *Rank) []JournalPoint {
	points := make([]JournalPoint, len(doc.Results))
	for i, r := range doc.Results {
		raw := r.FPMs[0].Measurement.Raw
		points[i] = JournalPoint{Group: doc.Groups[i], KVSeedRegime: r.KVSeedRegime, Forwards: raw[len(raw)-1].Sample.ForwardIndex + 1, Elapsed: Float(i + 1)}
		if i == 0 {
			points[i].Ledger = doc.Ledger.Records
		}
	}
	return points
}

// What is read is what was written, to the byte of its JSON.
func TestJournalRoundTrip(t *testing.T) {
	doc := run(t, 3)[1]
	path := filepath.Join(t.TempDir(), "benchmark_dp1.journal")
	ends := journalOf(t, doc, path)
	j, err := ReadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := jsonText(t, j.Points), jsonText(t, pointsOf(doc)); got != want {
		t.Errorf("points\n%s\nwant\n%s", got, want)
	}
	if got, want := jsonText(t, j.Processes), jsonText(t, []JournalProcess{processOf(t, doc)}); got != want {
		t.Errorf("processes\n%s\nwant\n%s", got, want)
	}
	if j.Torn != 0 || j.Size != int64(ends[len(ends)-1]) || j.Dropped[0] != 0 {
		t.Errorf("size %d, torn %d, dropped %v", j.Size, j.Torn, j.Dropped)
	}
	if _, err := CreateJournal(path, processOf(t, doc)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a journal was started over another: %v", err)
	}
}

// Cut at any byte, a journal holds what was whole by then; a process that goes on leaves a whole journal, tried near each record's ends and at every
// seventh byte.
func TestEveryPrefixOfAJournal(t *testing.T) {
	doc := run(t, 1)[0]
	whole := filepath.Join(t.TempDir(), "whole.journal")
	ends := journalOf(t, doc, whole)
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	points := pointsOf(doc)
	cut := filepath.Join(t.TempDir(), "cut.journal")
	for n := range len(text) + 1 {
		records, end := 0, 0
		for _, e := range ends {
			if e <= n {
				records, end = records+1, e
			}
		}
		if err := os.WriteFile(cut, text[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := ReadJournal(cut)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		whole := max(end, min(n, len(journalMagic)))
		if records == 0 && n < len(journalMagic) {
			whole = 0
		}
		if len(j.Processes) != min(records, 1) || len(j.Points) != max(records-1, 0) || j.Torn != int64(n-whole) {
			t.Fatalf("cut at %d: %d processes, %d points, %d bytes torn; %d records were whole", n, len(j.Processes), len(j.Points), j.Torn, records)
		}
		if n%7 != 0 && n-end > frameHead+1 {
			continue
		}
		next := processOf(t, doc)
		next.Process, next.Keep = 2, len(j.Points)
		w, err := ExtendJournal(j, next)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		for _, p := range points[len(j.Points):] {
			if err := w.Append(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := ReadJournal(cut)
		if err != nil {
			t.Fatalf("cut at %d, and gone on with: %v", n, err)
		}
		if again.Torn != 0 || len(again.Processes) != min(records, 1)+1 || jsonText(t, again.Points) != jsonText(t, points) {
			t.Fatalf("cut at %d, and gone on with: %d processes, %d points, %d bytes torn", n, len(again.Processes), len(again.Points), again.Torn)
		}
	}
}

// A changed byte (each third is tried) ends the journal at the record it is in; the records before stay.
func TestDamagedJournal(t *testing.T) {
	doc := run(t, 1)[0]
	path := filepath.Join(t.TempDir(), "benchmark.journal")
	ends := journalOf(t, doc, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := ends[0]; at < len(text); at += 3 {
		damaged := append([]byte(nil), text...)
		damaged[at] ^= 0x40
		j, err := ParseJournal(damaged)
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		want := 0
		for _, e := range ends[1:] {
			if e <= at {
				want++
			}
		}
		if len(j.Points) != want || j.Size+j.Torn != int64(len(text)) {
			t.Fatalf("byte %d: %d points, want the %d before it", at, len(j.Points), want)
		}
	}
}

// A process keeps fewer points than there are where another rank lost one: the others do not count any more.
func TestJournalDropsWhatDoesNotCount(t *testing.T) {
	doc := run(t, 2)[0]
	path := filepath.Join(t.TempDir(), "benchmark.journal")
	journalOf(t, doc, path)
	j, err := ReadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	next := processOf(t, doc)
	next.Process, next.Keep = 2, 1
	w, err := ExtendJournal(j, next)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Append(pointsOf(doc)[1]), w.Close()); err != nil {
		t.Fatal(err)
	}
	if j, err = ReadJournal(path); err != nil {
		t.Fatal(err)
	}
	if len(j.Points) != 2 || !reflect.DeepEqual(j.Dropped, []int{0, 2}) || !reflect.DeepEqual(j.By, []int{0, 1}) {
		t.Errorf("%d points by processes %v, %v dropped", len(j.Points), j.By, j.Dropped)
	}
}

func TestWhatIsNoJournal(t *testing.T) {
	doc := run(t, 1)[0]
	record := func(r journalRecord) []byte {
		path := filepath.Join(t.TempDir(), "x.journal")
		w, err := CreateJournal(path, processOf(t, doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.write(r), w.Close()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	newer, keeper, other := processOf(t, doc), processOf(t, doc), processOf(t, doc)
	newer.Format, keeper.Keep, other.Rank = 2, 1, 1
	for _, c := range []struct {
		name string
		text []byte
		want string
	}{
		{"a document", []byte(`{"schema_version": 2}`), "no journal's begin"},
		{"a later format", record(journalRecord{Process: &newer}), "format 2; this program reads 1"},
		{"more kept than there are", record(journalRecord{Process: &keeper}), "keeps 1 points of 0"},
		{"another rank", record(journalRecord{Process: &other}), "is of DP rank 1, the first one of 0"},
		{"an empty record", record(journalRecord{}), "want either a process or a point"},
		{"a point of no rank", record(journalRecord{Point: &JournalPoint{}}), "without a result of rank 0"},
	} {
		if _, err := ParseJournal(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestJournalPath(t *testing.T) {
	for _, c := range []struct {
		base string
		rank int
		want string
	}{
		{"out/benchmark.json", 0, "out/benchmark.journal"}, {"out/benchmark.json", 3, "out/benchmark_dp3.journal"},
		{"result", 1, "result_dp1.journal"}, {"x.journal", 0, "x.journal.journal"}, {"a/.json", 0, "a/.json.journal"},
	} {
		if got := JournalPath(c.base, c.rank); got != c.want {
			t.Errorf("%s, rank %d: got %s, want %s", c.base, c.rank, got, c.want)
		}
		if ok, err := filepath.Match("benchmark*.json", filepath.Base(c.want)); ok || err != nil {
			t.Errorf("%s is swept as a document", c.want)
		}
	}
}

// Whatever bytes a journal holds, reading them ends, allocates no more than they are worth and never loses a record that was whole.
func FuzzJournal(f *testing.F) {
	path := filepath.Join(f.TempDir(), "benchmark.journal")
	ends := journalOf(f, run(f, 1)[0], path)
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:ends[1]])
	f.Add([]byte(journalMagic + "\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := ParseJournal(b)
		if err != nil {
			return
		}
		if j.Size+j.Torn != int64(len(b)) || len(j.By) != len(j.Points) {
			t.Fatalf("%d bytes: size %d, torn %d, %d points by %d", len(b), j.Size, j.Torn, len(j.Points), len(j.By))
		}
		again, err := ParseJournal(b[:j.Size])
		if err != nil || len(again.Points) != len(j.Points) || len(again.Processes) != len(j.Processes) || again.Torn != 0 {
			t.Fatalf("without its tail: %v", err)
		}
	})
}

// Whatever a whole frame holds, it is a record or an error, and a journal that is read can be looked at.
func FuzzJournalRecord(f *testing.F) {
	doc := run(f, 2)[1]
	process, err := encode(journalRecord{Process: ptr(processOf(f, doc))})
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range pointsOf(doc) {
		text, err := encode(journalRecord{Point: &p})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(process, text)
	}
	f.Add(process, []byte(`{"point": {"group": {"rank_results": [{}, {"fpms": []}], "point": {}}, "ledger": [{"requested_shape": 1}], "preparation": {}}}`))
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		b := []byte(journalMagic)
		for _, text := range [][]byte{first, second} {
			var err error
			if b, err = appendFrame(b, encoder, text); err != nil {
				t.Fatal(err)
			}
		}
		j, err := ParseJournal(b)
		if err != nil {
			return
		}
		if j.Torn != 0 || len(j.Processes) == 0 {
			t.Fatalf("%d processes, %d bytes torn", len(j.Processes), j.Torn)
		}
		_, _, _ = j.Title(), j.Summary(), j.Causes()
		_ = NewHistory(j)
		j.check()
	})
}

func ptr[T any](v T) *T { return &v }

// Appending a point of eight ranks, without the sync.
func BenchmarkJournalAppend(b *testing.B) {
	doc := run(b, 8)[0]
	w, err := CreateJournal(filepath.Join(b.TempDir(), "benchmark.journal"), processOf(b, doc))
	if err != nil {
		b.Fatal(err)
	}
	point := pointsOf(doc)[2]
	for b.Loop() {
		if err := w.Append(point); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(w.size)/float64(b.N), "bytes/point")
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
