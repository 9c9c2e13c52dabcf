package machine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update writes the reports that placement makes into testdata/place; look at the difference before you keep it.
var update = flag.Bool("update", false, "rewrite testdata/place")

// Every file describes a machine, then requests ("> np=2 gpus=1"), each with the report that it must make.
func TestPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/place/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(string(text), "\n> ")
			m, err := Parse(strings.NewReader(head))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			got.WriteString(head + "\n")
			for line := range strings.Lines(string(text)) {
				if request, ok := strings.CutPrefix(line, "> "); ok {
					fmt.Fprintf(&got, "> %s%s", request, answer(t, m, strings.TrimSuffix(request, "\n")))
				} else if rest := strings.TrimSpace(line); strings.HasPrefix(rest, "## ") {
					got.WriteString(line)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("(-want +got; -update rewrites it)\n%s", diff)
			}
		})
	}
}

// answer is the report, or the error, of one request.
func answer(t *testing.T, m *Machine, request string) string {
	t.Helper()
	programs := strings.Split(request, " : ")
	q := parse(t, programs[0])
	if len(programs) > 1 {
		q.Parts = q.parts()
		for _, words := range programs[1:] {
			more := parse(t, words)
			part := more.parts()[0]
			part.None = part.GPUsPerRank == 0
			q.Parts = append(q.Parts, part)
			q.Ranks += part.Ranks
		}
	}
	p, err := m.Place(q)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, w := range p.Warnings {
		fmt.Fprintln(&b, "warning:", w)
	}
	for _, line := range p.Report(0) {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// parse reads the words of one program's wishes.
func parse(t *testing.T, request string) (q Request) {
	t.Helper()
	for word := range strings.FieldsSeq(request) {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "np":
			q.Ranks = n
		case "gpus":
			q.GPUsPerRank = n
		case "cvd":
			q.Visible, q.VisibleSet = value, true
		case "all":
			q.All = true
		case "oversubscribe":
			q.Oversub = true
		case "bind":
			q.Bind = Bind(value)
		case "map":
			count, per, _ := strings.Cut(value, ":")
			q.Map, _ = strconv.Atoi(count)
			q.Per = Per(per)
		case "round":
			q.Round = true
		case "gpu-map":
			for part := range strings.SplitSeq(value, ",") {
				n, _ := strconv.Atoi(part)
				q.GPUMap = append(q.GPUMap, n)
			}
		default:
			t.Fatalf("request %q: %q is no wish", request, key)
		}
	}
	return q
}
