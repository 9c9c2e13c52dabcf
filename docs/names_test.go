// Package docs checks the pages of this folder.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// reference is a package and the tests of it that follow in the same cell of a table.
	reference = regexp.MustCompile("`([a-z/]+)` ((?:Test|Fuzz|Benchmark)\\w+(?:, (?:Test|Fuzz|Benchmark)\\w+)*)")
	declared  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// Every test that a page names is there.
func TestNamedTestsExist(t *testing.T) {
	known := map[string]map[string]bool{}
	for _, page := range []string{"contract-coverage.md", "evidence-cases.md", "engine-cases.md", "launcher-cases.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, m := range reference.FindAllStringSubmatch(string(text), -1) {
			dir := m[1]
			if known[dir] == nil {
				known[dir] = testsOf(t, filepath.Join("..", dir))
			}
			for name := range strings.SplitSeq(m[2], ", ") {
				found++
				if !known[dir][name] {
					t.Errorf("%s: %s has no %s", page, dir, name)
				}
			}
		}
		if found < 20 {
			t.Errorf("%s names %d tests: its tables are not read", page, found)
		}
		for i, line := range strings.Split(string(text), "\n") {
			cells := strings.Split(line, "|")
			if page != "engine-cases.md" && len(cells) == 4 && !strings.Contains(cells[1], "---") && cells[2] != " test " && !reference.MatchString(cells[2]) && !strings.Contains(cells[2], "**gap**") {
				t.Errorf("%s:%d: neither a test nor a gap", page, i+1)
			}
		}
	}
}

// testsOf are the test functions of a folder.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	return names
}

// ruled is a file of package artifact and the functions of it that follow.
var ruled = regexp.MustCompile("`([a-z_]+\\.go)` ([A-Za-z]+(?:, [A-Za-z]+)*)")

// Every rule that the page about readers names is a function of its file.
func TestNamedRulesExist(t *testing.T) {
	page, err := os.ReadFile("readers.md")
	if err != nil {
		t.Fatal(err)
	}
	found := ruled.FindAllStringSubmatch(string(page), -1)
	if len(found) < 30 {
		t.Errorf("%d rules are named; the table has more rows", len(found))
	}
	for _, m := range found {
		text, err := os.ReadFile(filepath.Join("..", "artifact", m[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		for name := range strings.SplitSeq(m[2], ", ") {
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `\(`).Match(text) {
				t.Errorf("%s has no function %s", m[1], name)
			}
		}
	}
}
