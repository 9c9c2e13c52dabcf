// Command fpmrun starts one process per rank and leaves nothing behind.
package main

import (
	"context"
	"os"

	_ "github.com/fpmrun/fpmrun/cmd/internal/warm"
	"github.com/fpmrun/fpmrun/launcher/keeper"
)

func main() {
	if keeper.IsKeeper(os.Args) {
		os.Exit(keeper.Main(os.Args))
	}
	os.Exit(run(context.Background(), os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
