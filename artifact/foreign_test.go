package artifact

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files of other kinds are called by their name, by all ways of reading, and nobody waits for them.
func TestForeignFiles(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.journal", journalMagic + "and more", `is a journal, which show and check read; want JSON`},
		{"a.json.gz", "\x1f\x8b\x08\x00\x00\x00\x00\x00", `is compressed by gzip; want JSON, plain or compressed by zstd under a name that ends in .zst`},
		{"a.json", "\x28\xb5\x2f\xfd\x00\x00\x00\x00", `is compressed by zstd; want JSON, or a name that ends in .zst`},
		{"a.parquet", "PAR1....", `is a Parquet table; want JSON`},
		{"bom.json", "\xef\xbb\xbf{\"a\": 1}", `is text that begins with a byte order mark; want JSON without one`},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, document := ReadDocument(path)
		_, documents := ReadDocuments([]string{path})
		_, overview := ReadOverview(path)
		for reader, err := range map[string]error{"ReadDocument": document, "ReadDocuments": documents, "ReadOverview": overview} {
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrNotReady) {
				t.Errorf("%s: %s: got %v, want %q", c.name, reader, err, c.want)
			}
		}
	}
}
