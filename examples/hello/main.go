// Command hello joins its world, meets the others in a barrier, and says who it is.
//
//	fpmrun -np 4 hello
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/fpmrun/fpmrun/rank"
)

func main() {
	if err := hello(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hello(ctx context.Context) error {
	id, err := rank.Identify(os.Getenv)
	if err != nil {
		return err
	}
	comm, _, err := rank.Join(ctx, id, rank.Options{Getenv: os.Getenv, Logger: slog.Default()})
	if err != nil {
		return err
	}
	if err := comm.Barrier(ctx); err != nil {
		return err
	}
	fmt.Printf("hello from rank %d of %d\n", comm.Rank(), comm.Size())
	return comm.Close()
}
