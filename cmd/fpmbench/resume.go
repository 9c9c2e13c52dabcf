package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/collective"
	"github.com/fpmrun/fpmrun/rank/bench"
)

// agreedOutput is rank 0's file: the one asked for, that of the run to go on with, or one in a folder of the launch. All ranks call it.
func (o *options) agreedOutput(ctx context.Context, world *collective.Comm, runID string) (string, error) {
	if o.resume == "" {
		if o.outputPath != "" {
			return o.outputPath, nil
		}
		return filepath.Join("fpm-results", runID, "benchmark.json"), nil
	}
	// Rank 0 looks, since the others may be on hosts without its files; what it finds or why it does not is told to all.
	type found struct{ Path, Wrong string }
	var f found
	if world.Rank() == 0 {
		var err error
		f.Path, err = bench.FindRun(o.resume)
		switch inside := o.outputPath != "" && samePath(filepath.Dir(o.outputPath), o.resume); {
		case errors.Is(err, bench.ErrNoRun) && inside:
			f.Path, err = o.outputPath, nil // one command line starts a run and goes on with it, however often it is killed
		case err == nil && o.outputPath != "" && !samePath(o.outputPath, f.Path):
			err = fmt.Errorf("its files are those of --output-path %s, but --output-path %s is given; drop it", f.Path, o.outputPath)
		}
		if err != nil {
			f.Wrong = err.Error()
		}
	}
	f, err := collective.Broadcast(ctx, world, 0, f)
	switch {
	case err != nil:
		return "", fmt.Errorf("agree on the run to go on with: %w", err)
	case f.Wrong != "":
		return "", exit.AsUsage(fmt.Errorf("--resume %s: %s", o.resume, f.Wrong))
	}
	return f.Path, nil
}

// samePath compares names of files, whichever way they are written.
func samePath(a, b string) bool {
	x, errX := filepath.Abs(a)
	y, errY := filepath.Abs(b)
	return errX == nil && errY == nil && x == y
}

// prepareOutput claims this rank's files.
func (o *options) prepareOutput(base string, rank int) (*bench.Output, error) {
	if o.resume != "" {
		return bench.ResumeOutput(base, o.probePath, rank)
	}
	return bench.PrepareOutput(base, o.probePath, rank, o.overwrite)
}
