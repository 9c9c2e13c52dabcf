// Command fpmrun starts one process per rank and leaves nothing behind.
package main

import (
	"context"
	"os"

	"github.com/fpmrun/fpmrun/launcher"
)

func main() {
	if launcher.IsKeeper(os.Args) {
		os.Exit(launcher.KeeperMain())
	}
	os.Exit(run(context.Background(), os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
