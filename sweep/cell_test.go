package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cellsOf are the command lines of a sweep's cells, by "name: flags of fpmrun | flags of fpmbench".
func cellsOf(t *testing.T, text string) []string {
	t.Helper()
	f, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := f.Cells()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range cells {
		got = append(got, c.Name+": "+strings.Join(c.Launch, " ")+" | "+strings.Join(c.Bench, " "))
	}
	return got
}

func TestCells(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"one run", "output: o", []string{"run: --np=1 | "}},
		{"the last axis is the fastest", "output: o\nmatrix: {model: [a, b], np: [1, 2]}",
			[]string{"a_np1: --np=1 | --model=a", "a_np2: --np=2 | --model=a", "b_np1: --np=1 | --model=b", "b_np2: --np=2 | --model=b"}},
		{"the ranks follow from the topology", "output: o\nfpmrun: {dp: 2}\nmatrix: {tp: [1, 4]}", []string{"tp1: --np=2 --dp=2 --tp=1 | ", "tp4: --np=8 --dp=2 --tp=4 | "}},
		{"exclude and include", "output: o\nmatrix: {model: [a, b], mode: [prefill, decode]}\nexclude: [{model: b, mode: decode}]\ninclude: [{model: c, np: 3}]",
			[]string{"a_prefill: --np=1 | --model=a --mode=prefill", "a_decode: --np=1 | --model=a --mode=decode", "b_prefill: --np=1 | --model=b --mode=prefill", "c_np3: --np=3 | --model=c"}},
		{"only included ones", "output: o\ninclude: [{model: c}, {model: d}]", []string{"c: --np=1 | --model=c", "d: --np=1 | --model=d"}},
		{"repeats", "output: o\nrepeats: 2\nmatrix: {model: [a]}", []string{"a_run1: --np=1 | --model=a", "a_run2: --np=1 | --model=a"}},
		{"switches and values", "output: o\nmatrix: {expert-parallel: [true], max-num-seqs: [8]}", []string{"expert-parallel_max-num-seqs8: --np=1 | --expert-parallel=true --max-num-seqs=8"}},
		{"the collectors' launches of a dense model", "output: o\npreset: {collectors: {gpus: [1, 2]}}\nmatrix: {model: [a]}",
			[]string{"a_prefill_tp1_dp1: --np=1 --tp=1 --dp=1 | --warmup-iterations=5 --model=a --mode=prefill", "a_decode_tp1_dp1: --np=1 --tp=1 --dp=1 | --warmup-iterations=5 --model=a --mode=decode",
				"a_prefill_tp2_dp1: --np=2 --tp=2 --dp=1 | --warmup-iterations=5 --model=a --mode=prefill", "a_decode_tp2_dp1: --np=2 --tp=2 --dp=1 | --warmup-iterations=5 --model=a --mode=decode"}},
		{"those of experts, each once", "output: o\nfpmbench: {warmup-iterations: 0}\npreset: {collectors: {gpus: [1, 2], layouts: [pure_tp, dep]}}\nexclude: [{mode: prefill}]",
			[]string{"decode_tp1_dp1: --np=1 --tp=1 --dp=1 | --warmup-iterations=0 --mode=decode", "decode_tp2_dp1: --np=2 --tp=2 --dp=1 | --warmup-iterations=0 --mode=decode",
				"decode_tp1_dp2_expert-parallel: --np=2 --tp=1 --dp=2 | --warmup-iterations=0 --mode=decode --expert-parallel=true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, cellsOf(t, c.text)); diff != "" {
				t.Errorf("cells (-want +got)\n%s", diff)
			}
		})
	}
}

func TestCellsRefuse(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a topology that is no product", "output: o\nfpmrun: {np: 3, tp: 2}", "run: tp 2 = 2 does not divide 3 ranks"},
		{"no number of ranks", "output: o\nmatrix: {np: [gpu]}", "npgpu: np: gpu: want a number of at least 1"},
		{"nothing left", "output: o\nmatrix: {np: [1]}\nexclude: [{np: 1}]", "nothing is left to run"},
		{"a run that is there already", "output: o\nmatrix: {np: [1]}\ninclude: [{np: 1}]", "np1: two cells of the sweep are the same run"},
		{"no points", "output: o\nfpmbench: {points-file: no-such.json}", "run: points-file: open no-such.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err = f.Cells(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// A folder is never below another run's, is no document by its name, and is another one for every value.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, value := range []string{"a/b", "a-b", "a b", "a_b", "..", "benchmark.json", "/m/config.json", strings.Repeat("x", 300), strings.Repeat("x", 301), "ü"} {
		got := name(Flags{{"model", value}})
		if strings.ContainsAny(got, "/ ") || strings.HasSuffix(got, ".json") || strings.HasPrefix(got, ".") || len(got) > 100 || filepath.Base(got) != got {
			t.Errorf("model %q: folder %q", value, got)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("models %q and %q: both in %q", value, other, got)
		}
		seen[got] = value
	}
}

// A finished run is known by its flags and points: other points under the same name are another run.
func TestDigestFollowsThePoints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "points.json")
	digests := map[string]bool{}
	for _, points := range []string{"one", "other", "one"} {
		if err := os.WriteFile(path, []byte(points), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := Parse([]byte("output: o\nfpmbench: {points-file: " + path + "}"))
		if err != nil {
			t.Fatal(err)
		}
		cells, err := f.Cells()
		if err != nil {
			t.Fatal(err)
		}
		digests[cells[0].Digest] = true
	}
	if len(digests) != 2 {
		t.Errorf("%d digests of two contents", len(digests))
	}
}

// Flags of fpmrun that change nothing of what is measured may change in the course of a sweep.
func TestDigestIsOfTheMeasurement(t *testing.T) {
	digest := func(text string) string {
		t.Helper()
		f, err := Parse([]byte("output: o\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		cells, err := f.Cells()
		if err != nil {
			t.Fatal(err)
		}
		return cells[0].Digest
	}
	same := digest("fpmrun: {np: 2}")
	for text, equal := range map[string]bool{"fpmrun: {np: 2, timeout: 1h}": true, "fpmrun: {np: 3}": false, "fpmrun: {np: 2, tp: 2}": false, "fpmrun: {np: 2}\nfpmbench: {model: tiny}": false} {
		if got := digest(text) == same; got != equal {
			t.Errorf("%s: the same run %v, want %v", text, got, equal)
		}
	}
}
