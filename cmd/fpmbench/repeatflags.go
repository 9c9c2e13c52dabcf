package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/flagvalue"
)

// percent is a limit that is in force when it, or its counterpart, is given.
type percent struct{ flagvalue.Percent }

// limit is the fraction.
func (p *percent) limit() *artifact.Float {
	if !p.Given {
		return nil
	}
	return (*artifact.Float)(&p.Value)
}

// applyRepeat checks the flags of repeated launches, and takes over what a process that repeats the run gives to one of the launches.
func (o *options) applyRepeat(getenv func(string) string) error {
	if number := getenv(keyLaunch); number != "" {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return fmt.Errorf("%s=%s: want the number of a launch; unset it: --repeat sets it", keyLaunch, number)
		}
		o.launch, o.repeat.Value, o.outputPath = n, 1, getenv(keyLaunchOutput)
		o.reverse = o.reverse || getenv(keyLaunchOrder) == "b"
		return nil
	}
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.stopCV.Given || o.stopShare.Given {
		o.stopCV.Given, o.stopShare.Given = true, true
		if o.repeat.Value < 2 {
			refuse("--stop-cv and --stop-share compare launches; give --repeat 2 or more")
		}
	}
	if o.repeat.Value < 2 {
		return errors.Join(errs...)
	}
	for _, other := range []struct {
		given  bool
		text   string
		reason string
	}{
		{o.resume != "", "--resume " + o.resume, "go on with one launch by the folder of that launch, without --repeat"},
		{o.serve != "", "--serve " + o.serve, "the next launch begins when one has ended"},
		{o.probePath != "", "--probe-path " + o.probePath, "each launch has a sidecar of its own"},
		{o.reverse && o.order.Value == "abba", "--reverse", "abba gives each launch its order; use --order same"},
	} {
		if other.given {
			refuse("--repeat %d and %s exclude each other: %s", o.repeat.Value, other.text, other.reason)
		}
	}
	return errors.Join(errs...)
}
