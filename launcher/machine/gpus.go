package machine

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// gpuLine is what is used of a line of fpmgpu list; docs/fpmgpu.md describes it.
type gpuLine struct {
	Version int    `json:"v"`
	Kind    string `json:"kind"`
	Index   int    `json:"index"`
	GPU     int    `json:"gpu"`
	UUID    string `json:"uuid"`
	Name    string `json:"name"`
	PCI     string `json:"pci"`
	MIG     bool   `json:"mig"`
}

// AddGPUs reads the lines of fpmgpu list; their NUMA nodes come from the kernel's files below root.
func (m *Machine) AddGPUs(lines []byte, root fs.FS) error {
	for line := range strings.Lines(string(lines)) {
		var l gpuLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return fmt.Errorf("machine: a line of fpmgpu list is no JSON object: %w", err)
		}
		if l.Version != 1 {
			return fmt.Errorf("machine: fpmgpu list writes version %d, this program reads 1; build both from one source", l.Version)
		}
		switch l.Kind {
		case "gpu":
			m.GPUs = append(m.GPUs, GPU{Index: l.Index, UUID: l.UUID, Name: l.Name, PCI: l.PCI, Node: nodeOfPCI(root, l.PCI), MIG: l.MIG})
		case "mig":
			i := slices.IndexFunc(m.GPUs, func(g GPU) bool { return g.Index == l.GPU })
			if i < 0 {
				return fmt.Errorf("machine: fpmgpu list has a MIG device of GPU %d before that GPU", l.GPU)
			}
			m.GPUs[i].Slices = append(m.GPUs[i].Slices, l.UUID)
		}
	}
	return nil
}
