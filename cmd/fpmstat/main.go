// Command fpmstat reads benchmark artifacts: check, merge, show, diff, qualify, export.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args, os.Stdout, os.Stderr)) }
