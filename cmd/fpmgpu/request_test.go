//go:build cgo

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// Each line is answered with the samples of its GPUs and a line that ends them; what fails is said there, and the next request is answered again.
func TestSamplesOnRequest(t *testing.T) {
	lib := complete(dgxh200.New())
	lost := true
	device := &lib.Devices[3].(*server.Device).Device
	throttle := device.GetCurrentClocksThrottleReasonsFunc
	device.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
		if lost {
			lost = false
			return 0, nvml.ERROR_GPU_IS_LOST
		}
		return throttle()
	}
	find := lib.DeviceGetHandleByUUIDFunc
	lib.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
		for i, d := range lib.Devices {
			if uuid == "GPU-"+string(rune('0'+i)) {
				return d, nvml.SUCCESS
			}
		}
		return find(uuid)
	}
	var out, errs bytes.Buffer
	in := strings.NewReader("1 GPU-2 GPU-5\n\n2 GPU-3\nx GPU-3\n4 GPU-99\n")
	if status := run([]string{"fpmgpu", "sample", "--on-request"}, lib, in, &out, &errs); status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		for _, part := range []string{`"uuid":"GPU-`, `"kind":"answer"`} {
			if at := strings.Index(line, part); at >= 0 {
				got = append(got, strings.SplitN(line[at:], ",\"sm_mhz", 2)[0])
			}
		}
	}
	want := []string{`"uuid":"GPU-2"`, `"uuid":"GPU-5"`, `"kind":"answer","id":"1"}`, `"kind":"answer","id":"2","error":"GPU GPU-3: ERROR_GPU_IS_LOST"}`,
		`"uuid":"GPU-3"`, `"kind":"answer","id":"x"}`, `"kind":"answer","id":"4","error":"--gpu GPU-99: ERROR_INVALID_ARGUMENT; fpmgpu list prints the UUIDs"}`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if status := run([]string{"fpmgpu", "sample", "--on-request", "--count", "2"}, lib, strings.NewReader(""), &out, &errs); status != 2 || !strings.Contains(errs.String(), "--on-request") {
		t.Errorf("with --count: status %d, %s", status, errs.String())
	}
}
