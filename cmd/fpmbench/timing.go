package main

import (
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/gpu/cuda"
	"github.com/fpmrun/fpmrun/gpu/sim"
)

// timingAllowed refuses --gpu-timing where there is no device to time, and beside what needs a measurement.
func (o *options) timingAllowed(engine string) error {
	if !o.gpuTiming {
		return nil
	}
	var errs []error
	if engine != cuda.Name && engine != sim.Name {
		errs = append(errs, fmt.Errorf("--gpu-timing: the %s engine runs on no GPU; drop the flag", engine))
	}
	for flag, given := range map[string]bool{"--resume": o.resume != "", "--repeat": o.repeat.Value > 1, "--serve": o.serve != "", "--roofline": o.roofline} {
		if given {
			errs = append(errs, fmt.Errorf("--gpu-timing with %s: a diagnostic run is no measurement; drop one of them", flag))
		}
	}
	return errors.Join(errs...)
}
