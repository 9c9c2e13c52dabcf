package keeper

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The keeper is the program of that name where there is one, with the socket as its descriptor 3 and the version of its messages as its argument.
func TestStartProgram(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, Name), []byte("#!/bin/sh\necho \"version $1, $VARIABLE\" >&3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd, conn, err := Start(folder, append(os.Environ(), "VARIABLE=value"))
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := strings.TrimSpace(string(said)); got != "version 1, value" {
		t.Errorf("the program said %q", got)
	}
}

// A keeper of another build refuses to work.
func TestOtherVersion(t *testing.T) {
	if status := Main([]string{Name, "0"}); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
}
