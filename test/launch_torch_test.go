package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A PyTorch program that knows torchrun's variables only runs under fpmrun.
func TestLaunchTorch(t *testing.T) {
	python := ""
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import torch.distributed").Run() == nil {
			python = name
			break
		}
	}
	if python == "" {
		t.Skip("PyTorch is not installed for python3; on Debian: python3-torch")
	}
	program, err := filepath.Abs("../examples/torch_allreduce.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, ranks := range []string{"3"} {
		r := succeed(t, t.TempDir(), "fpmrun", "-np", ranks, "--timeout", "3m", python, program)
		if want := "sum over " + ranks + " ranks is right"; strings.Count(r.stdout, want) != 1 {
			t.Errorf("%s ranks: %q, want %q once", ranks, r.stdout, want)
		}
	}
}
