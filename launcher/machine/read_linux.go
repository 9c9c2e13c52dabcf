package machine

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Read describes this host's CPUs, from the kernel's files below root ("/" as a file system) and this process's affinity. GPUs
// are added by AddGPUs.
func Read(root fs.FS) (*Machine, error) {
	allowed, err := Affinity()
	if err != nil {
		return nil, err
	}
	m := &Machine{Allowed: allowed, Quota: Quota(root)}
	m.readTopology(root)
	return m, nil
}

// Affinity is the set of CPUs that this process may use.
func Affinity() (CPUs, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("machine: read the CPU affinity: %w", err)
	}
	var cpus CPUs
	for n, left := 0, set.Count(); left > 0; n++ {
		if set.IsSet(n) {
			cpus = append(cpus, n)
			left--
		}
	}
	return cpus, nil
}

// readTopology reads NUMA nodes and hyper-threads. A kernel that does not tell them, as in some containers, gives one node of
// single-threaded cores.
func (m *Machine) readTopology(root fs.FS) {
	nodes, _ := fs.Glob(root, "sys/devices/system/node/node[0-9]*")
	for _, dir := range nodes {
		id, err := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "node"))
		if err != nil {
			continue
		}
		if cpus := readCPUs(root, dir+"/cpulist"); len(cpus) > 0 {
			m.Nodes = append(m.Nodes, Node{id, cpus})
		}
	}
	slices.SortFunc(m.Nodes, func(a, b Node) int { return a.ID - b.ID })
	seen := map[int]bool{}
	for _, c := range m.Allowed {
		threads := readCPUs(root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", c))
		if seen[c] || len(threads) < 2 {
			continue
		}
		for _, t := range threads {
			seen[t] = true
		}
		m.Cores = append(m.Cores, threads)
	}
}

// readCPUs is a kernel's list of CPUs; nil when there is none.
func readCPUs(root fs.FS, file string) CPUs {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return nil
	}
	cpus, err := ParseCPUs(string(text))
	if err != nil {
		return nil
	}
	return cpus
}

// nodeOfPCI is the NUMA node of a PCI device; -1 when unknown.
func nodeOfPCI(root fs.FS, pci string) int {
	text, err := fs.ReadFile(root, "sys/bus/pci/devices/"+pci+"/numa_node")
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return n
}
