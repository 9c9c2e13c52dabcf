package machine

import (
	"fmt"
	"slices"
)

// Bind is what a rank's CPUs are.
type Bind string

// The bindings.
const (
	BindNone Bind = "none" // all that are allowed
	BindCore Bind = "core" // cores of its own, an equal share
	BindNUMA Bind = "numa" // those of one NUMA node, the one of its GPU where it has one
	BindGPU  Bind = "gpu"  // those next to its GPU
)

// Per is what a number of ranks is counted for.
type Per string

// What ranks are counted for.
const (
	PerNode Per = "node" // the whole machine
	PerNUMA Per = "numa"
	PerGPU  Per = "gpu"
)

// Request is what ranks want of a machine. The zero value wants nothing.
type Request struct {
	Ranks int // 0: as many as Map says

	GPUsPerRank int    // 0 leaves GPUs alone
	GPUMap      []int  // positions among the visible devices, GPUsPerRank for each rank in turn; nil is in order
	Visible     string // CUDA_VISIBLE_DEVICES of the caller
	VisibleSet  bool   // it is set
	All         bool   // each rank sees all devices, its own first; else its own only
	Oversub     bool   // ranks may share devices
	Parts       []Part // consecutive ranks that want devices of their own kinds, all ranks together; nil is one part as above

	Bind  Bind // "" is BindNone
	Map   int  // ranks for each Per; 0 is no such wish
	Per   Per
	Round bool // consecutive ranks go round the NUMA nodes; else they fill one after the other
}

// Part is what consecutive ranks of a request want of the devices; the fields are those of Request.
type Part struct {
	Ranks       int
	GPUsPerRank int
	GPUMap      []int
	All         bool
	Oversub     bool
	None        bool // the ranks see no device; else GPUsPerRank 0 leaves devices alone
}

// parts are the request's, or the one that it makes itself.
func (q *Request) parts() []Part {
	if q.Parts != nil {
		return q.Parts
	}
	return []Part{{Ranks: q.Ranks, GPUsPerRank: q.GPUsPerRank, GPUMap: q.GPUMap, All: q.All, Oversub: q.Oversub}}
}

// wantsGPUs reports whether any rank wants devices of its own.
func (q *Request) wantsGPUs() bool {
	return slices.ContainsFunc(q.parts(), func(part Part) bool { return part.GPUsPerRank > 0 })
}

// Place is where one rank runs.
type Place struct {
	CPUs   CPUs     // nil: not bound
	Node   int      // NUMA node of CPUs, -1 when they are of several
	GPUs   []string // UUIDs of its own devices
	Names  []string // of these devices, for people
	See    []string // UUIDs of the devices that it sees, in order; nil when GPUs are left alone
	Shared int      // ranks that use its first device, itself among them
}

// Placement is where all ranks run.
type Placement struct {
	Ranks    []Place
	Warnings []string
}

// Count is how many ranks a request makes, without placing them: Ranks, or what Map says. CUDA devices count as
// visible ones.
func (m *Machine) Count(q Request) (int, error) {
	if q.Map == 0 {
		return max(q.Ranks, 1), nil
	}
	units := 1
	switch q.Per {
	case PerNUMA:
		units = len(m.nodes())
	case PerGPU:
		var err error
		if units, err = m.Visible(q); err != nil {
			return 0, fmt.Errorf("--map-by ppr:%d:gpu: %w", q.Map, err)
		}
	}
	most := q.Map * units
	if q.Ranks > most {
		return 0, fmt.Errorf("-np %d: --map-by ppr:%d:%s has room for %d; type -np %d, or ppr:%d:%s", q.Ranks, q.Map, q.Per, most, most, (q.Ranks+units-1)/units, q.Per)
	}
	if q.Ranks > 0 {
		return q.Ranks, nil
	}
	return most, nil
}

// Visible is how many devices a request's CUDA_VISIBLE_DEVICES leaves: GPUs, and of divided ones the MIG devices. Zero is
// an error that says so.
func (m *Machine) Visible(q Request) (int, error) {
	devices, err := m.visible(q.Visible, q.VisibleSet)
	if err == nil && len(devices) == 0 {
		err = fmt.Errorf("no GPU is visible; %s", m.numbers())
		if q.VisibleSet {
			err = fmt.Errorf("no GPU is visible (CUDA_VISIBLE_DEVICES=%s)", q.Visible)
		}
	}
	return len(devices), err
}

// Place gives every rank its CPUs and GPUs.
func (m *Machine) Place(q Request) (*Placement, error) {
	n, err := m.Count(q)
	if err != nil {
		return nil, err
	}
	q.Ranks = n
	if q.Map > 0 && q.Per == PerGPU {
		if q.Parts != nil {
			return nil, fmt.Errorf("--map-by ppr:%d:gpu goes with the same GPU flags for all programs", q.Map)
		}
		q.GPUsPerRank = max(q.GPUsPerRank, 1)
	}
	p := &Placement{Ranks: make([]Place, n)}
	for i := range p.Ranks {
		p.Ranks[i].Node = -1
	}
	gpuOf, err := m.placeGPUs(p, q)
	if err != nil {
		return nil, err
	}
	return p, m.placeCPUs(p, q, gpuOf)
}
