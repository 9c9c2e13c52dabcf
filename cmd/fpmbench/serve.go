package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
	"github.com/fpmrun/fpmrun/rank/bench"
)

// server serves the documents of a run over HTTP, on rank 0.
type server struct {
	http    http.Server
	metrics *bench.MetricsServer
	address string
	failed  chan error
}

// serveAddress is the address that --serve means.
func serveAddress(given string) (string, error) {
	address, err := flagvalue.ListenAddress(given)
	if err != nil {
		return "", fmt.Errorf("--serve %s: %w", given, err)
	}
	return address, nil
}

// listen opens the address of --serve before any work is done, so that one that is taken ends the run at once.
func listen(ctx context.Context, address string) (*server, error) {
	given := address
	address, err := serveAddress(given)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--serve %s: %w", given, err)
	}
	s := &server{metrics: bench.NewMetricsServer(), address: l.Addr().String(), failed: make(chan error, 1)}
	s.http = http.Server{Handler: s.metrics, ReadHeaderTimeout: 10 * time.Second}
	go func() { s.failed <- s.http.Serve(l) }()
	return s, nil
}

// wait serves until stop is closed or ctx ends.
func (s *server) wait(ctx context.Context, stop <-chan struct{}) error {
	select {
	case <-stop:
		return nil
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return fmt.Errorf("--serve %s: %w", s.address, err)
	}
}

// close ends the serving, with requests that are being answered given a moment.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("--serve %s: %w", s.address, err)
	}
	return s.http.Close()
}
