package launcher

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/launcher/keeper"
)

// The keeper is the program of that name where there is one, with the socket as its descriptor 3 and the version of its messages as its argument.
func TestStartKeeper(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, keeper.Name), []byte("#!/bin/sh\necho \"version $1, $VARIABLE\" >&3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd, conn, err := startKeeper(folder, append(os.Environ(), "VARIABLE=value"))
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
	if got := strings.TrimSpace(string(said)); got != "version "+strconv.Itoa(keeper.Version)+", value" {
		t.Errorf("the program said %q", got)
	}
}
