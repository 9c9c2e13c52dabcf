//go:build cgo

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// driverLine is the first line of a list.
type driverLine struct {
	Version int    `json:"v"`
	Kind    string `json:"kind"` // driver
	Driver  string `json:"driver"`
	CUDA    string `json:"cuda,omitempty"` // highest CUDA version that the driver runs
	GPUs    int    `json:"gpus"`
}

// gpuLine is one GPU. Fields that the driver does not know are left out.
type gpuLine struct {
	Version    int     `json:"v"`
	Kind       string  `json:"kind"`  // gpu
	Index      int     `json:"index"` // in the order of PCI addresses, as nvidia-smi counts
	UUID       string  `json:"uuid"`
	Name       string  `json:"name"`
	PCI        string  `json:"pci,omitempty"`                // domain:bus:device.function, as in /sys/bus/pci/devices
	Memory     uint64  `json:"memory,omitempty"`             // bytes
	Used       *uint64 `json:"memory_used,omitempty"`        // bytes, by all programs and the driver
	Capability string  `json:"compute_capability,omitempty"` // such as 9.0
	MIG        bool    `json:"mig,omitempty"`                // it is divided: only its MIG devices run programs
	ECC        *bool   `json:"ecc,omitempty"`
	PowerLimit float64 `json:"power_limit_w,omitempty"`
}

// migLine is one slice of a divided GPU.
type migLine struct {
	Version int    `json:"v"`
	Kind    string `json:"kind"` // mig
	GPU     int    `json:"gpu"`  // index of the GPU
	Index   int    `json:"index"`
	UUID    string `json:"uuid"`
	Name    string `json:"name,omitempty"`
	Memory  uint64 `json:"memory,omitempty"` // bytes
}

// list prints the driver, then each GPU with its MIG devices.
func list(lib library, out *json.Encoder) error {
	d := driverLine{Version: lineVersion, Kind: "driver"}
	var ret nvml.Return
	if d.Driver, ret = lib.SystemGetDriverVersion(); ret != nvml.SUCCESS {
		return fmt.Errorf("driver version: %s", explain(ret))
	}
	if cuda, ret := lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		d.CUDA = fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10)
	}
	if d.GPUs, ret = lib.DeviceGetCount(); ret != nvml.SUCCESS {
		return fmt.Errorf("number of GPUs: %s", explain(ret))
	}
	if err := out.Encode(d); err != nil {
		return err
	}
	for i := range d.GPUs {
		if err := listGPU(lib, out, i); err != nil {
			return fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	return nil
}

func listGPU(lib library, out *json.Encoder, index int) error {
	device, ret := lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return fmt.Errorf("open it: %s", explain(ret))
	}
	g := gpuLine{Version: lineVersion, Kind: "gpu", Index: index}
	if g.UUID, ret = device.GetUUID(); ret != nvml.SUCCESS {
		return fmt.Errorf("UUID: %s", explain(ret))
	}
	if g.Name, ret = device.GetName(); ret != nvml.SUCCESS {
		return fmt.Errorf("name: %s", explain(ret))
	}
	if pci, ret := device.GetPciInfo(); ret == nvml.SUCCESS {
		g.PCI = address(text(pci.BusId[:]))
	}
	if memory, ret := device.GetMemoryInfo(); ret == nvml.SUCCESS {
		g.Memory, g.Used = memory.Total, &memory.Used
	}
	if major, minor, ret := device.GetCudaComputeCapability(); ret == nvml.SUCCESS {
		g.Capability = fmt.Sprintf("%d.%d", major, minor)
	}
	if mode, _, ret := device.GetMigMode(); ret == nvml.SUCCESS {
		g.MIG = mode == nvml.DEVICE_MIG_ENABLE
	}
	if ecc, _, ret := device.GetEccMode(); ret == nvml.SUCCESS {
		on := ecc == nvml.FEATURE_ENABLED
		g.ECC = &on
	}
	if limit, ret := device.GetEnforcedPowerLimit(); ret == nvml.SUCCESS {
		g.PowerLimit = float64(limit) / 1000
	}
	if err := out.Encode(g); err != nil || !g.MIG {
		return err
	}
	return listMIG(device, out, index)
}

// listMIG prints the MIG devices of a GPU. Their numbers may have gaps.
func listMIG(device nvml.Device, out *json.Encoder, gpu int) error {
	most, ret := device.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("number of MIG devices: %s", explain(ret))
	}
	for i := range most {
		mig, ret := device.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if ret != nvml.SUCCESS {
			return fmt.Errorf("MIG device %d: %s", i, explain(ret))
		}
		m := migLine{Version: lineVersion, Kind: "mig", GPU: gpu, Index: i}
		if m.UUID, ret = mig.GetUUID(); ret != nvml.SUCCESS {
			return fmt.Errorf("UUID of MIG device %d: %s", i, explain(ret))
		}
		if name, ret := mig.GetName(); ret == nvml.SUCCESS {
			m.Name = name
		}
		if memory, ret := mig.GetMemoryInfo(); ret == nvml.SUCCESS {
			m.Memory = memory.Total
		}
		if err := out.Encode(m); err != nil {
			return err
		}
	}
	return nil
}

// text is a C string in an array.
func text(chars []int8) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// address writes a PCI address as the kernel does: the library's domain has eight digits.
func address(busID string) string {
	domain, rest, ok := strings.Cut(busID, ":")
	if ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		domain = domain[4:]
	}
	if !ok {
		return strings.ToLower(busID)
	}
	return strings.ToLower(domain + ":" + rest)
}
