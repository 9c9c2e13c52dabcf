package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/fpmrun/fpmrun/cmd/internal/sibling"
)

// becomeSweep replaces this process by fpm-sweep, which is a program of its own since what it loads would cost each start of a job a millisecond. It
// returns only when that fails.
func becomeSweep(args, environ []string) error {
	path, err := sibling.Path("fpm-sweep")
	if err != nil {
		return errors.New("fpm-sweep is neither beside fpmrun nor in PATH; build it with make")
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, args, environ))
}
