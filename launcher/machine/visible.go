package machine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// device is something that one CUDA process can run on: a whole GPU or a MIG device.
type device struct {
	uuid string
	gpu  *GPU
	mig  bool
}

// String is GPU 1, or MIG device MIG-... of GPU 1.
func (d device) String() string {
	if d.mig {
		return fmt.Sprintf("MIG device %s of GPU %d", d.uuid, d.gpu.Index)
	}
	return fmt.Sprintf("GPU %d", d.gpu.Index)
}

// devices lists what can run programs: of a divided GPU its slices, of any other the whole.
func (m *Machine) devices() []device {
	var list []device
	for i := range m.GPUs {
		g := &m.GPUs[i]
		if !g.MIG {
			list = append(list, device{g.UUID, g, false})
		}
		for _, uuid := range g.Slices {
			list = append(list, device{uuid, g, true})
		}
	}
	return list
}

// visible are the devices that value, of CUDA_VISIBLE_DEVICES, leaves visible, in its order; all when it is not set. Where
// CUDA would silently see fewer than the value says, this is an error.
func (m *Machine) visible(value string, set bool) ([]device, error) {
	if !set {
		return m.devices(), nil
	}
	var list []device
	if value == "" || value == "-1" || value == "NoDevFiles" {
		return nil, nil
	}
	for entry := range strings.SplitSeq(value, ",") {
		d, err := m.find(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES=%s: %w", value, err)
		}
		if slices.ContainsFunc(list, func(other device) bool { return other.uuid == d.uuid }) {
			return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES=%s: %v is there twice, and CUDA would see no GPU at all; name it once", value, d)
		}
		list = append(list, d)
	}
	return list, nil
}

// find is the device of an entry: the number of a GPU, or a UUID, which may be cut short as long as it is unique.
func (m *Machine) find(entry string) (device, error) {
	all := m.devices()
	if n, err := strconv.Atoi(entry); err == nil {
		for i := range m.GPUs {
			g := &m.GPUs[i]
			switch {
			case g.Index != n:
			case !g.MIG:
				return device{g.UUID, g, false}, nil
			case len(g.Slices) == 0:
				return device{}, fmt.Errorf("GPU %d is in MIG mode and has no MIG device", n)
			default:
				return device{g.Slices[0], g, true}, nil // the one that CUDA takes
			}
		}
		return device{}, fmt.Errorf("there is no GPU %d; %s", n, m.numbers())
	}
	var found []device
	if strings.HasPrefix(entry, "GPU-") || strings.HasPrefix(entry, "MIG-") {
		for _, d := range all {
			if strings.HasPrefix(d.uuid, entry) {
				found = append(found, d)
			}
		}
	}
	switch {
	case len(found) == 1 || len(found) > 1 && found[0].uuid == entry:
		return found[0], nil
	case len(found) > 1:
		return device{}, fmt.Errorf("%s fits %d devices; write more of the UUID", entry, len(found))
	}
	if g := slices.IndexFunc(m.GPUs, func(g GPU) bool { return g.MIG && g.UUID == entry }); g >= 0 {
		return device{}, fmt.Errorf("%s is in MIG mode; name one of its MIG devices", entry)
	}
	return device{}, fmt.Errorf("there is no device %q; fpmgpu list prints the UUIDs", entry)
}

// numbers says which GPUs there are.
func (m *Machine) numbers() string {
	switch len(m.GPUs) {
	case 0:
		return "this machine has none"
	case 1:
		return "this machine has GPU 0 only"
	}
	return fmt.Sprintf("this machine has GPUs 0 to %d", len(m.GPUs)-1)
}

// errMIG: CUDA gives a process one MIG device and no more.
var errMIG = errors.New("a process can use one MIG device only; type --gpus-per-rank 1")
