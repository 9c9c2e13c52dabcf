package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fpmrun/fpmrun/collective"
)

// cell is one row of the table: an operation with a size.
type cell struct {
	Op    string
	Bytes int // per rank; of the whole vector in an allreduce and a broadcast
}

// defaultCells are the sizes at which collective libraries are usually compared.
var defaultCells = []string{"barrier:0", "broadcast:64", "broadcast:1048576", "gather:64", "gather:4096", "gather:1048576",
	"allgather:64", "allgather:1048576", "allreduce:8", "allreduce:4096", "allreduce:1048576", "allreduce:67108864"}

// parseCell reads OPERATION:BYTES.
func parseCell(text string) (cell, error) {
	op, size, _ := strings.Cut(text, ":")
	bytes, err := strconv.Atoi(size)
	if err != nil || bytes < 0 || !slices.Contains([]string{"barrier", "broadcast", "gather", "allgather", "allreduce", "step"}, op) {
		return cell{}, fmt.Errorf("cell %q: want OPERATION:BYTES, the operation barrier, broadcast, gather, allgather, allreduce or step, as in allreduce:4096", text)
	}
	if op == "step" && bytes != stepBytes {
		return cell{}, fmt.Errorf("cell %q: a steady step is a message of %d bytes, want step:%d", text, stepBytes, stepBytes)
	}
	return cell{op, bytes}, nil
}

// timing is what a cell took: the slowest rank's time of each repetition, in microseconds.
type timing struct {
	N                int
	Median, P10, P90 float64
}

const (
	probes    = 5
	maxRepeat = 5000
)

// measure times a cell for about as long as limit says. All ranks enter each repetition together.
func (b *bench) measure(ctx context.Context, c cell, limit time.Duration) (timing, error) {
	n := b.comm.Size()
	b.sent = make([]float64, c.Bytes/8+1)
	b.received = make([]float64, (c.Bytes/8+1)*n)
	for i := range b.sent {
		b.sent[i] = 1
	}
	clear(b.received)
	if c.Op == "step" {
		var err error
		if b.step, err = newEngineStep(ctx, b.comm); err != nil {
			return timing{}, err
		}
	}
	probe, err := b.repeat(ctx, c, probes)
	if err != nil {
		return timing{}, err
	}
	repeats := int(float64(limit.Microseconds()) / 2 / (probe[probes/2] + 0.1))
	all, err := b.repeat(ctx, c, min(max(repeats, probes), maxRepeat))
	if err != nil {
		return timing{}, err
	}
	return timing{len(all), all[len(all)/2], all[len(all)/10], all[len(all)*9/10]}, nil
}

// repeat returns the slowest rank's microseconds of each repetition, in ascending order.
func (b *bench) repeat(ctx context.Context, c cell, times int) ([]float64, error) {
	took := make([]float64, times)
	for i := range took {
		if c.Op != "barrier" {
			if err := b.comm.Barrier(ctx); err != nil {
				return nil, err
			}
		}
		start := time.Now()
		if err := b.operate(ctx, c); err != nil {
			return nil, err
		}
		took[i] = float64(time.Since(start)) / float64(time.Microsecond)
	}
	err := collective.AllReduceInto(ctx, b.comm, took, took, collective.Max)
	slices.Sort(took)
	return took, err
}

// bench is a world with the memory that the operations use.
type bench struct {
	comm           *collective.Comm
	sent, received []float64
	step           *engineStep
}

func (b *bench) operate(ctx context.Context, c cell) error {
	n := c.Bytes / 8
	switch c.Op {
	case "barrier":
		return b.comm.Barrier(ctx)
	case "broadcast":
		return collective.BroadcastInto(ctx, b.comm, 0, b.sent[:n])
	case "step":
		return b.step.run(ctx, b.comm.Rank())
	case "gather":
		return collective.GatherInto(ctx, b.comm, 0, b.received[:n*b.comm.Size()], b.sent[:n])
	case "allgather":
		return collective.AllGatherInto(ctx, b.comm, b.received[:n*b.comm.Size()], b.sent[:n])
	default:
		return collective.AllReduceInto(ctx, b.comm, b.received[:n], b.sent[:n], collective.Sum)
	}
}
