// Command fpmbench is the benchmark that each rank runs: forward passes of a transformer, measured over a grid of
// points. Started alone it is a world of one; under fpmrun, srun or another launcher it is one rank of many.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args, os.Environ(), os.Stdout, os.Stderr))
}
