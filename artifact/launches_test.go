package artifact

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Launches are found by file, folder and repeat.json, also after the folder of a repeat.json was moved.
func TestLaunchPaths(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("rep/launch-1/b_merged.json", "{}")
	write("rep/repeat.json", `{"schema":"fpmrun.repeat","schema_version":1,"launches":[{"path":"/gone/launch-1/b_merged.json"},{"path":"/gone/launch-2/b_merged.json"}]}`)
	write("one [a]/b_merged.json", "{}")
	write("two/b_merged.json", "{}")
	write("two/c_merged.json", "{}")
	for _, c := range []struct {
		text string
		want []string // below the folder, but for absolute ones
		err  string
	}{
		{"rep", []string{"rep/launch-1/b_merged.json", "/gone/launch-2/b_merged.json"}, ""},
		{"rep/repeat.json", []string{"rep/launch-1/b_merged.json", "/gone/launch-2/b_merged.json"}, ""},
		{"one [a]", []string{"one [a]/b_merged.json"}, ""},
		{"two/c_merged.json,one [a]", []string{"two/c_merged.json", "one [a]/b_merged.json"}, ""},
		{"two", nil, "holds 2 merged documents"},
		{"none", nil, "no such file"},
		{"one [a],", nil, "empty path"},
		{"one [a],one [a]", nil, "named twice"},
	} {
		var parts []string
		for part := range strings.SplitSeq(c.text, ",") {
			if part != "" {
				part = filepath.Join(dir, part)
			}
			parts = append(parts, part)
		}
		got, err := LaunchPaths(strings.Join(parts, ","))
		var want []string
		for _, path := range c.want {
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			want = append(want, path)
		}
		if !slices.Equal(got, want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %q, %v; want %q, %q", c.text, got, err, want, c.err)
		}
	}
}
