// Command fpmcoll times the collective operations between the ranks it is started as: `fpmrun -np 8 fpmcoll`, or
// `fpmrun bench -np 8`.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args, os.Getenv, os.Stdout, os.Stderr)) }
