package artifact

import (
	"errors"
	"testing"
)

// One diagnostic document among the ranks' is enough that nothing is merged; it is good by itself, and says what it is.
func TestDiagnosticIsNotMerged(t *testing.T) {
	for _, diagnostic := range []bool{false, true} {
		docs := run(t, 2)
		docs[0].FPMRun = map[string]any{"launch": "x"}
		if diagnostic {
			docs[1].FPMRun = map[string]any{"diagnostic": Diagnostic{GPUTiming: []PointTiming{{1, []Float{0.5}}}}}
		}
		paths := written(t, docs)
		if _, err := mergeFiles(t, paths); errors.Is(err, ErrDiagnostic) != diagnostic || !diagnostic && err != nil {
			t.Errorf("diagnostic %v: %v", diagnostic, err)
		}
		for i, r := range CheckFiles(paths) {
			if !r.Good() || r.Diagnostic != (diagnostic && i == 1) {
				t.Errorf("diagnostic %v: %+v", diagnostic, r)
			}
		}
	}
}
