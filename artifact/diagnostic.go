package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrDiagnostic marks documents of a diagnostic run, whose times are not those of a measured one.
var ErrDiagnostic = errors.New("artifact: a diagnostic run (fpmbench --gpu-timing or --debug-progress), which looks into its steps and so changes what is timed")

// Diagnostic is what a run recorded to look into itself rather than to measure: member "diagnostic" of a rank's "fpmrun" part.
type Diagnostic struct {
	GPUTiming []PointTiming `json:"gpu_timing,omitempty"`     // in the order of measurement
	Progress  bool          `json:"debug_progress,omitempty"` // the device told after each command that it had ended
}

// PointTiming is the device's own time of each raw sample of a point, in seconds: between an event before the step's first command and one after its last.
type PointTiming struct {
	BenchmarkID int     `json:"benchmark_id"`
	Seconds     []Float `json:"seconds"`
}

// Diagnostic reports whether a rank or merged document is of a diagnostic run. The error names a part that cannot be read.
func (d *Document) Diagnostic() (bool, error) {
	parts, err := d.ownParts()
	if err != nil {
		return false, err
	}
	for rank, part := range parts {
		var own map[string]json.RawMessage
		if err := json.Unmarshal(part, &own); err != nil {
			return false, fmt.Errorf("artifact: %q: fpmrun of rank %d: %w", d.Path, rank, err)
		}
		if own["diagnostic"] != nil {
			return true, nil
		}
	}
	return false, nil
}

// measured is an error for a document of a diagnostic run.
func (d *Document) measured() error {
	diagnostic, err := d.Diagnostic()
	if err == nil && diagnostic {
		err = fmt.Errorf("%q: %w", d.Path, ErrDiagnostic)
	}
	return err
}
