package machine

import (
	"errors"
	"fmt"
	"slices"
)

// placeCPUs gives every rank its CPUs. gpus are the ranks' first GPUs; nil for none.
func (m *Machine) placeCPUs(p *Placement, q Request, gpus []*GPU) error {
	switch q.Bind {
	case "", BindNone:
		return nil
	case BindGPU:
		if !q.wantsGPUs() {
			return errors.New("--bind-to gpu goes with --gpus-per-rank N")
		}
	}
	if len(m.Allowed) == 0 {
		return errors.New("--bind-to: this process may use no CPU that the kernel names")
	}
	nodes := m.nodes()
	byNode := make([][]int, len(nodes)) // ranks
	for r := range p.Ranks {
		i := nodeOf(r, q, len(nodes))
		if g := gpus[r]; g != nil {
			i = slices.IndexFunc(nodes, func(n Node) bool { return n.ID == g.Node })
			if i < 0 {
				p.Warnings = append(p.Warnings, m.noNode(r, g))
				i = nodeOf(r, q, len(nodes))
			}
		}
		byNode[i] = append(byNode[i], r)
	}
	for i, ranks := range byNode {
		if q.Bind == BindCore {
			m.shareCores(p, nodes[i], ranks)
			continue
		}
		for _, r := range ranks {
			p.Ranks[r].CPUs, p.Ranks[r].Node = nodes[i].CPUs, nodes[i].ID
		}
	}
	return nil
}

// nodeOf is the place of a rank's NUMA node when nothing else decides.
func nodeOf(rank int, q Request, nodes int) int {
	switch {
	case q.Round:
		return rank % nodes
	case q.Map > 0 && q.Per == PerNUMA:
		return rank / q.Map
	}
	return rank * min(nodes, q.Ranks) / q.Ranks
}

// noNode says why a rank is not next to its GPU.
func (m *Machine) noNode(rank int, g *GPU) string {
	if g.Node < 0 {
		return fmt.Sprintf("rank %d: the NUMA node of GPU %d is unknown, so its CPUs are chosen without it", rank, g.Index)
	}
	return fmt.Sprintf("rank %d: no CPU of NUMA node %d, next to GPU %d, is allowed (allowed: %v), so its CPUs are elsewhere", rank, g.Node, g.Index, m.Allowed)
}

// shareCores gives the ranks of a node equal shares of its cores, whole ones as long as there are enough.
func (m *Machine) shareCores(p *Placement, node Node, ranks []int) {
	cores := m.cores(node.CPUs)
	if len(ranks) > len(cores) {
		p.Warnings = append(p.Warnings, fmt.Sprintf("--bind-to core: %d ranks share %d cores of NUMA node %d", len(ranks), len(cores), node.ID))
	}
	for k, r := range ranks {
		low, high := k*len(cores)/len(ranks), (k+1)*len(cores)/len(ranks)
		var cpus CPUs
		for _, core := range cores[low:max(high, low+1)] {
			cpus = append(cpus, core...)
		}
		slices.Sort(cpus)
		p.Ranks[r].CPUs, p.Ranks[r].Node = cpus, node.ID
	}
}
