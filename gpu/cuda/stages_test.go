//go:build linux && cgo

package cuda

import (
	"fmt"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// Every part of the preparation is there in its order once graphs were captured, and none takes longer for steps that were prepared.
func TestStages(t *testing.T) {
	needGPU(t)
	cfg := graphs(t, "FULL")
	begin := gpu.Monotonic()
	e := openEngine(t, cfg)
	prepare := func() string {
		t.Helper()
		if err := e.Prepare(20, 1, false); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(e.Stages())
	}
	first := prepare()
	took := gpu.Monotonic() - begin
	if second := prepare(); second != first {
		t.Errorf("%s, and when it was prepared already %s", first, second)
	}
	var names []string
	sum := int64(0)
	for _, s := range e.Stages() {
		names = append(names, s.Name)
		if sum += int64(s.Took); s.Took < 0 || s.Took == 0 && s.Name != "dlopen" {
			t.Errorf("%s took %v", s.Name, s.Took)
		}
	}
	if got := fmt.Sprint(names); got != "[dlopen context compile weights pool selection capture]" {
		t.Errorf("got %s", got)
	}
	if sum -= int64(e.libraries.Took); sum > took {
		t.Errorf("the stages took %d ns of %d", sum, took)
	}
}
