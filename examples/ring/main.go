// Command ring passes a token around: rank 0 starts it, every rank adds its own number and sends it on.
//
//	fpmrun -np 4 ring
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"

	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank"
)

func main() {
	if err := ring(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ring(ctx context.Context) error {
	id, err := rank.Identify(os.Getenv)
	if err != nil {
		return err
	}
	comm, _, err := rank.Join(ctx, id, rank.Options{Getenv: os.Getenv, Logger: slog.Default()})
	if err != nil {
		return err
	}
	me, n := comm.Rank(), comm.Size()
	next, before := (me+1)%n, (me-1+n)%n
	var token uint64
	if n > 1 && me > 0 {
		b, err := collective.Recv(ctx, comm, before)
		if err != nil {
			return err
		}
		token = binary.LittleEndian.Uint64(b)
	}
	token += uint64(me)
	if n > 1 {
		if err := collective.Send(ctx, comm, next, binary.LittleEndian.AppendUint64(nil, token)); err != nil {
			return err
		}
	}
	if n > 1 && me == 0 {
		b, err := collective.Recv(ctx, comm, before)
		if err != nil {
			return err
		}
		token = binary.LittleEndian.Uint64(b)
	}
	if me == 0 {
		fmt.Printf("the token is back at rank 0 of %d: %d\n", n, token)
	}
	return comm.Close()
}
