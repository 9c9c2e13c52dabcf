package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
)

// Files that are missing or short are looked for again at each tick; any other fault, and the end of the time, ends the wait with the reason.
func TestEvidenceCase22WaitForFiles(t *testing.T) {
	missing := fmt.Errorf("%w: \"r1.json\" is empty", artifact.ErrNotReady)
	broken := errors.New("no document")
	for _, c := range []struct {
		name    string
		answers []error // of each try; the last one stays
		tries   int
		want    error
	}{
		{"there at once", []error{nil}, 1, nil},
		{"there at the third try", []error{missing, missing, nil}, 3, nil},
		{"broken at the second", []error{missing, broken}, 2, broken},
		{"never there", []error{missing}, 4, artifact.ErrNotReady},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		tick := make(chan time.Time, 8)
		tries := 0
		_, err := readWhenThere(ctx, []string{"r1.json"}, tick, func([]string) ([]*artifact.Document, error) {
			answer := c.answers[min(tries, len(c.answers)-1)]
			if tries++; tries < 4 {
				tick <- time.Time{}
			} else {
				cancel()
			}
			return nil, answer
		})
		cancel()
		host, _ := os.Hostname()
		if tries != c.tries || !errors.Is(err, c.want) || errors.Is(c.want, artifact.ErrNotReady) && (!strings.Contains(err.Error(), host) || !strings.Contains(err.Error(), "r1.json")) {
			t.Errorf("%s: %v after %d tries, want %v after %d", c.name, err, tries, c.want, c.tries)
		}
	}
}

// The flag's limit ends the wait with the file's name; without it nothing is waited for.
func TestMergeWaits(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"--wait", "150ms"}, nil} {
		var stdout, stderr strings.Builder
		path := filepath.Join(dir, "none.json")
		code := run(t.Context(), append(append([]string{"fpmstat", "merge", "-o", filepath.Join(dir, "m.json")}, args...), path), &stdout, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), path) {
			t.Errorf("%v: status %d: %s", args, code, stderr.String())
		}
	}
	var stderr strings.Builder
	if code := run(t.Context(), []string{"fpmstat", "merge", "-o", "m.json", "--wait", "-1s", "x.json"}, &stderr, &stderr); code != 2 || !strings.Contains(stderr.String(), "--wait -1s") {
		t.Errorf("a negative wait: status %d: %s", code, stderr.String())
	}
}
