//go:build linux && cgo

package cuda

import (
	"os"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
)

// faultSource is a kernel that reads where nothing is. It takes what any kernel takes and looks at none of it.
const faultSource = `extern "C" __global__ void fault() {
	volatile const unsigned *nowhere = (const unsigned *)16;
	(void)*nowhere;
}`

// inFault says how the faulting kernel is launched: "synchronous" waits after each command, "later" does not. The process has no GPU afterwards.
const inFault = "FPM_TEST_FAULT"

// A step with a faulting kernel fails with what the driver says, and with the command where each is waited for; then the engine answers nothing else and closes.
func TestFaultingKernel(t *testing.T) {
	way := os.Getenv(inFault)
	if way == "" {
		t.Skip("a faulting kernel takes the GPU from this process: run this test alone with " + inFault + "=synchronous and =later")
	}
	l := *needGPU(t)
	l.Synchronous = way == "synchronous"
	g := geometry(t, models[4].preset, models[4].overrides)
	e, err := New(configuration(g), &l, 0)
	if err != nil {
		t.Fatal(err)
	}
	image, _, err := compile(faultSource, []string{"--gpu-architecture=" + architecture(e.device)})
	if err != nil {
		t.Fatal(err)
	}
	found, err := e.machine.load(image, []string{"fault"})
	if err != nil {
		t.Fatal(err)
	}
	step := &gpu.Step{Rows: []gpu.Row{{Tokens: ids(g, 1, 70), Blocks: []int32{1, 2, 3, 4, 5}}}}
	run(t, e, step) // all is well before
	for s, p := range e.programs {
		p.free()
		delete(e.programs, s)
	}
	e.functions["gate"] = found["fault"]
	var out gpu.Output
	want := []string{"CUDA_ERROR_ILLEGAL_ADDRESS", findCommand}
	if l.Synchronous {
		want = []string{"CUDA_ERROR_ILLEGAL_ADDRESS", "layer 0: SwiGLU (gate)", "command "}
	}
	if err = e.Enqueue(step); err == nil {
		if l.Synchronous {
			t.Error("the launch is not waited for")
		}
		err = e.Await(t.Context(), &out)
	}
	if err == nil {
		t.Fatal("nothing is said of the fault")
	}
	t.Logf("fault: %v", err)
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q in it", err, part)
		}
	}
	if again := e.Enqueue(step); again == nil || again.Error() != err.Error() {
		t.Errorf("a step after the fault: %v, want the first error %v", again, err)
	}
	t.Logf("closed: %v", e.Close() != nil) // the driver frees nothing any more: the end of the process does
}

func TestEmulatedFault(t *testing.T) {
	for _, way := range []string{"synchronous", "later"} {
		if got := inFakeProcess(t, 64, []string{"-test.v", "-test.run", "^TestFaultingKernel$"}, "FPM_REQUIRE_GPU=1", inFault+"="+way); !strings.Contains(got, "fault: cuda: ") {
			t.Errorf("%s: no fault: %s", way, got)
		}
	}
}
