package machine

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Machine is what ranks are placed on.
type Machine struct {
	Allowed CPUs    // that this process may use
	Quota   float64 // CPUs' worth of time that its cgroup gets; 0 is no limit
	Nodes   []Node  // NUMA nodes, ascending
	Cores   []CPUs  // hyper-threads of each core; empty: each CPU is a core
	GPUs    []GPU   // in the order of their numbers
}

// Node is a NUMA node.
type Node struct {
	ID   int
	CPUs CPUs
}

// GPU is a graphics processor.
type GPU struct {
	Index int
	UUID  string
	Name  string
	PCI   string
	Node  int // NUMA node; -1 when unknown
	MIG   bool
	// Slices are the UUIDs of its MIG devices. A divided GPU runs programs on these only.
	Slices []string
}

// Parse reads the text that doc.go describes. '#' begins a comment.
func Parse(r io.Reader) (*Machine, error) {
	m := &Machine{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := m.parseLine(words); err != nil {
			return nil, fmt.Errorf("machine: line %d: %w", n, err)
		}
	}
	return m, lines.Err()
}

func (m *Machine) parseLine(words []string) error {
	var err error
	number := func(s string) int {
		n, e := strconv.Atoi(s)
		if e != nil && err == nil {
			err = fmt.Errorf("%q: want a number", s)
		}
		return n
	}
	list := func(s string) CPUs {
		c, e := ParseCPUs(s)
		if e != nil && err == nil {
			err = e
		}
		return c
	}
	switch {
	case words[0] == "allowed" && len(words) == 2:
		m.Allowed = list(words[1])
	case words[0] == "quota" && len(words) == 2:
		if m.Quota, err = strconv.ParseFloat(words[1], 64); err != nil || m.Quota <= 0 {
			return fmt.Errorf("quota %q: want a number above 0", words[1])
		}
	case words[0] == "node" && len(words) == 3:
		m.Nodes = append(m.Nodes, Node{number(words[1]), list(words[2])})
	case words[0] == "core" && len(words) == 2:
		m.Cores = append(m.Cores, list(words[1]))
	case words[0] == "gpu" && len(words) >= 3:
		g := GPU{Index: number(words[1]), UUID: words[2], Node: -1}
		for i, word := range words[3:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "node":
				g.Node = number(value)
			case "mig":
				g.MIG = value == "on"
			case "name":
				g.Name = strings.TrimPrefix(strings.Join(words[3+i:], " "), "name=")
			}
			if key == "name" {
				break
			}
		}
		m.GPUs = append(m.GPUs, g)
	case words[0] == "mig" && len(words) == 3:
		index := number(words[1])
		i := slices.IndexFunc(m.GPUs, func(g GPU) bool { return g.Index == index })
		if i < 0 {
			return fmt.Errorf("mig of GPU %d: there is no such GPU above", index)
		}
		m.GPUs[i].MIG = true
		m.GPUs[i].Slices = append(m.GPUs[i].Slices, words[2])
	default:
		return fmt.Errorf("%q: want allowed, quota, node, core, gpu or mig and their values", strings.Join(words, " "))
	}
	return err
}

// CPUCount is how many CPUs' worth of time this process gets, at least 1: those allowed, or the quota where it is less.
func (m *Machine) CPUCount() int {
	n := len(m.Allowed)
	if m.Quota > 0 {
		n = min(n, int(m.Quota))
	}
	return max(n, 1)
}

// nodes are the NUMA nodes with CPUs that are allowed, cut to these; a machine that names none is one node.
func (m *Machine) nodes() []Node {
	var list []Node
	for _, n := range m.Nodes {
		if cpus := n.CPUs.And(m.Allowed); len(cpus) > 0 {
			list = append(list, Node{n.ID, cpus})
		}
	}
	if len(list) == 0 {
		list = []Node{{0, m.Allowed}}
	}
	return list
}

// cores are the cores within a set of CPUs, each cut to it.
func (m *Machine) cores(within CPUs) []CPUs {
	var list []CPUs
	rest := slices.Clone(within)
	for _, core := range m.Cores {
		if threads := core.And(within); len(threads) > 0 {
			list = append(list, threads)
			rest = slices.DeleteFunc(rest, func(c int) bool { return slices.Contains(threads, c) })
		}
	}
	for _, c := range rest {
		list = append(list, CPUs{c})
	}
	slices.SortFunc(list, func(a, b CPUs) int { return a[0] - b[0] })
	return list
}
