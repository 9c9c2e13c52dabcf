package main

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"fpm-sweep": func() { os.Exit(run(context.Background(), os.Args, os.Environ(), os.Stdout, os.Stderr)) },
	})
}

// Sessions as a user types them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			path, err := exec.LookPath("fpm-sweep")
			e.Vars = append(e.Vars, "SWEEP="+path)
			return err
		},
	})
}
