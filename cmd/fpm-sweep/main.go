// Command fpm-sweep runs fpmbench once for each cell of a matrix over its flags: `fpmrun sweep FILE.yaml` becomes this program.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args, os.Environ(), os.Stdout, os.Stderr)) }
