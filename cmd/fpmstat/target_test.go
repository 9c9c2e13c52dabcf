package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestTarget(t *testing.T) {
	dir := t.TempDir()
	name := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.Mkdir(name("run"), 0o755),
		os.WriteFile(name("run/benchmark_merged.json"), nil, 0o644),
		os.WriteFile(name("with,comma.json"), nil, 0o644),
		os.WriteFile(name("old.csv"), nil, 0o644),
		os.Symlink("old.csv", name("link.csv")),
		os.Symlink("run/benchmark_merged.json", name("source.csv")),
		syscall.Mkfifo(name("pipe.csv"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	run := []string{name("run"), name("with,comma.json"), "", name("none.json")}
	for _, c := range []struct{ output, path, err string }{
		{output: "new.csv", path: "new.csv"},
		{output: "old.csv", path: "old.csv"},
		{output: "link.csv", path: "old.csv"}, // the link stays one
		{output: "run", err: "is a folder; want the name of a file in it"},
		{output: "pipe.csv", err: "is a device, pipe or socket; want the name of a file"},
		{output: "run/benchmark_merged.json", err: "is one of the files to export; choose another name"}, // the folder stands for it
		{output: "source.csv", err: "is one of the files to export"},
		{output: "with,comma.json", err: "is one of the files to export"},
	} {
		path, err := target("export", name(c.output), run)
		switch {
		case c.err == "" && (err != nil || path != name(c.path)):
			t.Errorf("%s: got %q, %v; want %q", c.output, path, err, name(c.path))
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), "export: -o "+name(c.output)+" "+c.err)):
			t.Errorf("%s: got %v, want %q", c.output, err, c.err)
		}
	}
}
