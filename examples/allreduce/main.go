// Command allreduce estimates pi: every rank integrates its share of 4/(1+x^2) over [0, 1], and the shares are summed.
//
//	fpmrun -np 4 allreduce
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank"
)

func main() {
	if err := pi(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pi(ctx context.Context) error {
	id, err := rank.Identify(os.Getenv)
	if err != nil {
		return err
	}
	comm, _, err := rank.Join(ctx, id, rank.Options{Getenv: os.Getenv, Logger: slog.Default()})
	if err != nil {
		return err
	}
	const steps = 1_000_000
	share := 0.0
	for i := comm.Rank(); i < steps; i += comm.Size() {
		x := (float64(i) + 0.5) / steps
		share += 4 / (1 + x*x) / steps
	}
	total, err := collective.AllReduce(ctx, comm, []float64{share}, collective.Sum)
	if err != nil {
		return err
	}
	if comm.Rank() == 0 {
		fmt.Printf("pi is about %.9f, by %d ranks\n", total[0], comm.Size())
	}
	return comm.Close()
}
