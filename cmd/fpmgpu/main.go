//go:build cgo

// Command fpmgpu prints what GPUs there are, or how they run at the moment, as JSON lines. It is a program of its own so that a driver
// that hangs, or a driver library that does not fit, costs the launcher and the ranks a warning and not the job.
package main

import (
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func main() {
	os.Exit(run(os.Args, nvml.New(), os.Stdin, os.Stdout, os.Stderr))
}
