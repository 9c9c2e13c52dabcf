// Command rpc serves a method on every rank and calls all of them from rank 0, with one time limit.
//
//	fpmrun -np 4 rpc
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank"
)

func main() {
	if err := roll(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func roll(ctx context.Context) error {
	id, err := rank.Identify(os.Getenv)
	if err != nil {
		return err
	}
	comm, _, err := rank.Join(ctx, id, rank.Options{Getenv: os.Getenv, Logger: slog.Default()})
	if err != nil {
		return err
	}
	err = comm.Handle("name", func(_ context.Context, req *collective.Request) (any, error) {
		return fmt.Sprintf("rank %d, process %d", comm.Rank(), os.Getpid()), nil
	})
	if err != nil {
		return err
	}
	if comm.Rank() == 0 {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		for _, reply := range comm.CallAll(limited, "name", nil) {
			var name string
			if err := reply.Decode(&name); err != nil {
				return fmt.Errorf("rank %d: %w", reply.Rank, err)
			}
			fmt.Println(name)
		}
	}
	if err := comm.Barrier(ctx); err != nil { // nobody leaves before rank 0 has its answers
		return err
	}
	return comm.Close()
}
