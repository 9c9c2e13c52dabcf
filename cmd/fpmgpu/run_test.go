//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/fpmrun/fpmrun/launcher/machine"
)

// complete gives a mock's devices what it leaves out. The GPUs in mig are divided into two slices, numbers 0 and 2.
func complete(s *server.Server, mig ...int) *server.Server {
	for i, d := range s.Devices {
		device := &d.(*server.Device).Device
		device.GetUUIDFunc = func() (string, nvml.Return) { return fmt.Sprintf("GPU-%d", i), nvml.SUCCESS }
		device.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
			var info nvml.PciInfo
			for k, c := range fmt.Sprintf("00000000:%02X:00.0", 0x3b+i) {
				info.BusId[k] = int8(c)
			}
			return info, nvml.SUCCESS
		}
		total, _ := device.GetMemoryInfo()
		device.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: total.Total, Used: 1 << 30, Free: total.Total - 1<<30}, nvml.SUCCESS
		}
		device.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
			return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		device.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 700000, nvml.SUCCESS }
		device.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_DISABLE, 0, nvml.SUCCESS }
		device.GetClockInfoFunc = func(kind nvml.ClockType) (uint32, nvml.Return) { return uint32(1000 + 500*int(kind)), nvml.SUCCESS }
		device.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 123456, nvml.SUCCESS }
		device.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 41, nvml.SUCCESS }
		device.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
			return nvml.ClocksThrottleReasonSwPowerCap | nvml.ClocksThrottleReasonHwThermalSlowdown, nvml.SUCCESS
		}
	}
	for _, i := range mig {
		device := &s.Devices[i].(*server.Device).Device
		device.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, 0, nvml.SUCCESS }
		device.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
		device.GetMigDeviceHandleByIndexFunc = func(k int) (nvml.Device, nvml.Return) {
			if k != 0 && k != 2 {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return &mock.Device{
				GetUUIDFunc:       func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d-%d", i, k), nvml.SUCCESS },
				GetNameFunc:       func() (string, nvml.Return) { return "NVIDIA H200 MIG 3g.71gb", nvml.SUCCESS },
				GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 71 << 30}, nvml.SUCCESS },
			}, nvml.SUCCESS
		}
	}
	return s
}

func TestList(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run([]string{"fpmgpu", "list"}, complete(dgxh200.New(), 7), nil, &out, &errs); status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 1+8+2 {
		t.Fatalf("%d lines, want one for the driver, 8 GPUs and 2 MIG devices\n%s", len(lines), out.String())
	}
	for i, want := range map[int]string{
		0:  `{"v":1,"kind":"driver","driver":"550.54.15","cuda":"12.4","gpus":8}`,
		2:  `{"v":1,"kind":"gpu","index":1,"uuid":"GPU-1","name":"NVIDIA H200 141GB HBM3e","pci":"0000:3c:00.0","memory":151397597184,"memory_used":1073741824,"compute_capability":"9.0","ecc":true,"power_limit_w":700}`,
		10: `{"v":1,"kind":"mig","gpu":7,"index":2,"uuid":"MIG-7-2","name":"NVIDIA H200 MIG 3g.71gb","memory":76235669504}`,
	} {
		if lines[i] != want {
			t.Errorf("line %d:\n got %s\nwant %s", i, lines[i], want)
		}
	}
	// The launcher places ranks by these lines.
	m := &machine.Machine{Allowed: machine.CPUs{0, 1, 2, 3}, Nodes: []machine.Node{{ID: 0, CPUs: machine.CPUs{0, 1}}, {ID: 1, CPUs: machine.CPUs{2, 3}}}}
	root := fstest.MapFS{"sys/bus/pci/devices/0000:3b:00.0/numa_node": {Data: []byte("1\n")}}
	if err := m.AddGPUs(out.Bytes(), root); err != nil {
		t.Fatal(err)
	}
	p, err := m.Place(machine.Request{Ranks: 9, GPUsPerRank: 1, Bind: machine.BindGPU})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Ranks[0]; got.GPUs[0] != "GPU-0" || got.CPUs.String() != "2-3" || p.Ranks[8].GPUs[0] != "MIG-7-2" {
		t.Errorf("placed on %+v and %+v", got, p.Ranks[8])
	}
}

func TestSample(t *testing.T) {
	var out, errs bytes.Buffer
	s := complete(dgxa100.New())
	s.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
		for _, d := range s.Devices {
			if id, _ := d.(*server.Device).GetUUID(); id == uuid {
				return d, nvml.SUCCESS
			}
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	if status := run([]string{"fpmgpu", "sample", "--gpu", "GPU-3", "--count", "3", "--every", "1ms"}, s, nil, &out, &errs); status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	n := 0
	for line := range strings.Lines(out.String()) {
		var got sampleLine
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		n++
		if got.Kind != "sample" || got.UUID != "GPU-3" || *got.SM != 1500 || *got.Memory != 2000 || *got.Power != 123.456 || *got.Temperature != 41 ||
			fmt.Sprint(got.Throttle) != "[sw_power_cap hw_thermal_slowdown]" || got.Time.IsZero() {
			t.Errorf("got %s", line)
		}
	}
	if n != 3 {
		t.Errorf("%d samples, want 3", n)
	}
	out.Reset()
	// What a device does not know is left out; a device that is gone is an error.
	device := &s.Devices[0].(*server.Device).Device
	device.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	device.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	if status := run([]string{"fpmgpu", "sample", "--gpu", "GPU-0"}, s, nil, &out, &errs); status != 0 || strings.Contains(out.String(), "power_w") || !strings.Contains(out.String(), `"throttle":null`) {
		t.Errorf("status %d: %s", status, out.String())
	}
	device.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	if status := run([]string{"fpmgpu", "sample", "--gpu", "GPU-0"}, s, nil, &out, &errs); status != 1 || !strings.Contains(errs.String(), "GPU GPU-0: ") {
		t.Errorf("a lost GPU: status %d: %s", status, errs.String())
	}
}

func TestFailures(t *testing.T) {
	hangs := complete(dgxh200.New())
	never := make(chan nvml.Return)
	defer close(never)
	hangs.InitFunc = func() nvml.Return { return <-never }
	missing := complete(dgxh200.New())
	missing.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	broken := complete(dgxh200.New())
	broken.Devices[3].(*server.Device).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	for _, c := range []struct {
		name   string
		lib    *server.Server
		args   string
		status int
		want   string
	}{
		{"a driver that hangs", hangs, "list --deadline 10ms", 1, "the driver has not answered within 10ms (--deadline)"},
		{"no driver", missing, "list", 1, "libnvidia-ml.so.1 is not installed"},
		{"a GPU that is lost", broken, "list", 1, "GPU 3: UUID: "},
		{"no command", missing, "", 2, "type fpmgpu list or fpmgpu sample"},
		{"unknown flag", missing, "list --fast", 2, "fast"},
		{"no samples", missing, "sample --count 0", 2, "at least 1"},
	} {
		var out, errs bytes.Buffer
		status := run(append([]string{"fpmgpu"}, strings.Fields(c.args)...), c.lib, nil, &out, &errs)
		if status != c.status || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: status %d, want %d; stderr %q, want %q", c.name, status, c.status, errs.String(), c.want)
		}
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{"00000000:3B:00.0": "0000:3b:00.0", "0000:3B:00.0": "0000:3b:00.0", "00010000:01:00.0": "00010000:01:00.0", "odd": "odd"} {
		if got := address(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
