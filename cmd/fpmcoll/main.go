// Command fpmcoll times the collective operations between the ranks it is started as: `fpmrun -np 8 fpmcoll`.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args, os.Stdout, os.Stderr)) }
