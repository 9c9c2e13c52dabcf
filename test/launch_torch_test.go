package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A PyTorch program that knows torchrun's variables only runs under fpmrun.
func TestLaunchTorch(t *testing.T) {
	if err := exec.Command("python3", "-c", "import torch.distributed").Run(); err != nil {
		t.Skipf("PyTorch is not installed for python3: %v", err)
	}
	program, err := filepath.Abs("../examples/torch_allreduce.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, ranks := range []string{"1", "3"} {
		r := succeed(t, t.TempDir(), "fpmrun", "-np", ranks, "--timeout", "3m", "python3", program)
		if want := "sum over " + ranks + " ranks is right"; strings.Count(r.stdout, want) != 1 {
			t.Errorf("%s ranks: %q, want %q once", ranks, r.stdout, want)
		}
	}
}
