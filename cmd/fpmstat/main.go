// Command fpmstat reads benchmark artifacts: check, merge, show, diff, qualify, plot, export, watch.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args, os.Stdout, os.Stderr)) }
