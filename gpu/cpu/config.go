package cpu

import (
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/gpu"
)

// validate reports everything in a configuration that this engine cannot run.
func validate(cfg *gpu.Config) error {
	errs := []error{cfg.Validate()}
	if cfg.Graph.PrefillMode() != gpu.GraphNone || cfg.Graph.DecodeMode() != gpu.GraphNone {
		errs = append(errs, fmt.Errorf("%w cudagraph mode %s (--cudagraph-mode) on the CPU engine: it has no graphs, only NONE", gpu.ErrConfig, cfg.Graph.Mode))
	}
	return errors.Join(errs...)
}

// check refuses a step that does not fit the engine.
func (e *Engine) check(step *gpu.Step) error {
	if err := e.cfg.Check(step); err != nil {
		return err
	}
	for i := range step.Rows {
		if r := &step.Rows[i]; r.Tokens == nil && !e.sampledSlot[r.Slot] {
			return fmt.Errorf("cpu: row %d: slot %d has no id sampled before, and the row brings none", i, r.Slot)
		}
	}
	return nil
}
