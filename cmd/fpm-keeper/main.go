// Command fpm-keeper is the parent of all ranks of a job, which fpmrun starts. It is a program of its own since loading one as large as fpmrun takes most of the time
// that a short job takes.
package main

import (
	"fmt"
	"os"

	"github.com/fpmrun/fpmrun/launcher/keeper"
)

func main() {
	if !keeper.IsKeeper(os.Args) {
		fmt.Fprintln(os.Stderr, "fpm-keeper: fpmrun starts this program; type fpmrun -np N PROGRAM")
		os.Exit(2)
	}
	os.Exit(keeper.Main(os.Args))
}
