package test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// bin holds the programs under test.
var bin string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fpm-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	bin = dir
	build := exec.Command("go", "build", "-o", dir+"/", "github.com/fpmrun/fpmrun/cmd/fpmrun", "github.com/fpmrun/fpmrun/cmd/fpm-keeper", "github.com/fpmrun/fpmrun/cmd/fpm-sweep", "github.com/fpmrun/fpmrun/cmd/fpmbench", "github.com/fpmrun/fpmrun/cmd/fpmstat")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// freePort is a TCP port of the loopback interface that nobody has at the moment.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(5 * time.Minute),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			port, err := freePort()
			if err != nil {
				return err
			}
			e.Setenv("FREE_PORT", port)
			points, err := os.ReadFile("../artifact/testdata/points-mixed.json")
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "points-mixed.json"), points, 0o644)
		},
	})
}
