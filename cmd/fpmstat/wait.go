package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
)

// waitInterval is how often files that are not there yet are looked for.
const waitInterval = 100 * time.Millisecond

// readWhenThere reads the documents of one run's ranks as soon as all of them are there and whole: other nodes' files may appear late, and grow, on a
// network file system that caches attributes. It tries again at each tick until ctx ends; the error then says which file is missing, and on which host.
func readWhenThere(ctx context.Context, paths []string, tick <-chan time.Time, read func([]string) ([]*artifact.Document, error)) ([]*artifact.Document, error) {
	for {
		docs, err := read(paths)
		if !errors.Is(err, artifact.ErrNotReady) {
			return docs, err
		}
		select {
		case <-tick:
		case <-ctx.Done():
			host, hostErr := os.Hostname()
			if hostErr != nil {
				host = "this host"
			}
			return nil, fmt.Errorf("on %s: %w", host, err)
		}
	}
}
