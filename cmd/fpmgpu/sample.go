//go:build cgo

package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// sampleLine is how a GPU runs at one moment. Fields that the driver does not know are left out.
type sampleLine struct {
	Version     int       `json:"v"`
	Kind        string    `json:"kind"` // sample
	Time        time.Time `json:"time"`
	UUID        string    `json:"uuid"`
	SM          *uint32   `json:"sm_mhz,omitempty"`
	Memory      *uint32   `json:"memory_mhz,omitempty"`
	Power       *float64  `json:"power_w,omitempty"`
	Temperature *uint32   `json:"temperature_c,omitempty"`
	Throttle    []string  `json:"throttle"` // why clocks are lower than they could be; empty when they are not; null when unknown
}

// reasons are the bits of the throttle reasons, as NVML's documentation names them.
var reasons = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksThrottleReasonGpuIdle, "gpu_idle"},
	{nvml.ClocksThrottleReasonApplicationsClocksSetting, "applications_clocks_setting"},
	{nvml.ClocksThrottleReasonSwPowerCap, "sw_power_cap"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hw_slowdown"},
	{nvml.ClocksThrottleReasonSyncBoost, "sync_boost"},
	{nvml.ClocksThrottleReasonSwThermalSlowdown, "sw_thermal_slowdown"},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "hw_thermal_slowdown"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "hw_power_brake_slowdown"},
	{nvml.ClocksThrottleReasonDisplayClockSetting, "display_clock_setting"},
}

// samples prints count samples of each GPU; no uuids is all of them.
func samples(lib library, out *json.Encoder, uuids []string, count int, every time.Duration) error {
	devices, err := open(lib, uuids)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(max(every, time.Millisecond))
	defer ticker.Stop()
	for i := range count {
		if i > 0 {
			<-ticker.C
		}
		for _, d := range devices {
			line, err := sample(d)
			if err != nil {
				return err
			}
			if err := out.Encode(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// open finds devices by UUID.
func open(lib library, uuids []string) ([]nvml.Device, error) {
	var devices []nvml.Device
	for _, uuid := range uuids {
		d, ret := lib.DeviceGetHandleByUUID(uuid)
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("--gpu %s: %s; fpmgpu list prints the UUIDs", uuid, explain(ret))
		}
		devices = append(devices, d)
	}
	if len(uuids) > 0 {
		return devices, nil
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("number of GPUs: %s", explain(ret))
	}
	for i := range n {
		d, ret := lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("GPU %d: %s", i, explain(ret))
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// sample reads one device. Only a device that is gone is an error; what a device does not know is left out.
func sample(d nvml.Device) (sampleLine, error) {
	s := sampleLine{Version: lineVersion, Kind: "sample", Time: time.Now().UTC()}
	var ret nvml.Return
	if s.UUID, ret = d.GetUUID(); ret != nvml.SUCCESS {
		return s, fmt.Errorf("UUID: %s", explain(ret))
	}
	if mhz, ret := d.GetClockInfo(nvml.CLOCK_SM); ret == nvml.SUCCESS {
		s.SM = &mhz
	}
	if mhz, ret := d.GetClockInfo(nvml.CLOCK_MEM); ret == nvml.SUCCESS {
		s.Memory = &mhz
	}
	if mw, ret := d.GetPowerUsage(); ret == nvml.SUCCESS {
		watts := float64(mw) / 1000
		s.Power = &watts
	}
	if celsius, ret := d.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		s.Temperature = &celsius
	}
	// Under this name also drivers know it that are older than its new one.
	if bits, ret := d.GetCurrentClocksThrottleReasons(); ret == nvml.SUCCESS {
		s.Throttle = []string{}
		for _, r := range reasons {
			if bits&r.bit != 0 {
				s.Throttle = append(s.Throttle, r.name)
			}
		}
	} else if ret == nvml.ERROR_GPU_IS_LOST {
		return s, fmt.Errorf("GPU %s: %s", s.UUID, explain(ret))
	}
	return s, nil
}
