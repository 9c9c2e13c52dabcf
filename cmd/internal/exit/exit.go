// Package exit carries exit statuses in errors, so that a whole program can be a function that returns one.
package exit

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Statuses that all programs share.
const (
	Failed = 1 // something went wrong
	Usage  = 2 // the command line, or a file that it names, is wrong
)

// Status is an error with an exit status. Without a cause there is nothing to print.
type Status struct {
	Code int
	Err  error
}

// Error is the cause's text.
func (s Status) Error() string {
	if s.Err == nil {
		return ""
	}
	return s.Err.Error()
}

// Unwrap is the cause.
func (s Status) Unwrap() error { return s.Err }

// AsUsage marks an error as a wrong command line; nil stays nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return Status{Usage, err}
}

// Report prints an error, each line behind the program's name, and returns its status: 0 for nil, Failed when it
// carries none.
func Report(w io.Writer, program string, err error) int {
	if err == nil {
		return 0
	}
	if text := err.Error(); text != "" {
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(w, "%s: %s\n", program, line)
		}
	}
	var s Status
	if errors.As(err, &s) {
		return s.Code
	}
	return Failed
}
