package main

import (
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/gpu/cuda"
	"github.com/fpmrun/fpmrun/gpu/sim"
)

// diagnostic reports whether the run looks into its steps rather than to measure them.
func (o *options) diagnostic() bool { return o.gpuTiming || o.progress }

// timingAllowed refuses --gpu-timing and --debug-progress where there is no device for it, and beside what needs a measurement.
func (o *options) timingAllowed(engine string) error {
	if !o.diagnostic() {
		return nil
	}
	var errs []error
	if o.progress && engine != cuda.Name {
		errs = append(errs, fmt.Errorf("--debug-progress: the %s engine runs on no GPU; drop the flag", engine))
	}
	if o.gpuTiming && engine != cuda.Name && engine != sim.Name {
		errs = append(errs, fmt.Errorf("--gpu-timing: the %s engine runs on no GPU; drop the flag", engine))
	}
	for flag, given := range map[string]bool{"--resume": o.resume != "", "--repeat": o.repeat.Value > 1, "--serve": o.serve != "", "--roofline": o.roofline} {
		if given {
			errs = append(errs, fmt.Errorf("%s beside --gpu-timing or --debug-progress: a diagnostic run is no measurement; drop one of them", flag))
		}
	}
	return errors.Join(errs...)
}
