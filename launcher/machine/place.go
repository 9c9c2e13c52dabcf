package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

	Bind  Bind // "" is BindNone
	Map   int  // ranks for each Per; 0 is no such wish
	Per   Per
	Round bool // consecutive ranks go round the NUMA nodes; else they fill one after the other
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
	if q.Map > 0 && q.Per == PerGPU && q.GPUsPerRank == 0 {
		q.GPUsPerRank = 1
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

// placeGPUs gives devices out; it returns each rank's first GPU, nil for none.
func (m *Machine) placeGPUs(p *Placement, q Request) ([]*GPU, error) {
	first := make([]*GPU, q.Ranks)
	if q.GPUsPerRank == 0 {
		return first, nil
	}
	devices, err := m.visible(q.Visible, q.VisibleSet)
	if err != nil {
		return nil, err
	}
	chosen, err := m.choose(devices, q)
	if err != nil {
		return nil, err
	}
	users := map[string]int{}
	for r, own := range chosen {
		place := &p.Ranks[r]
		first[r] = devices[own[0]].gpu
		users[devices[own[0]].uuid]++
		for _, i := range own {
			d := devices[i]
			if d.mig && (q.GPUsPerRank > 1 || q.All && len(devices) > 1) {
				if q.GPUsPerRank > 1 {
					return nil, fmt.Errorf("--gpus-per-rank %d: %w", q.GPUsPerRank, errMIG)
				}
				return nil, errors.New("--gpu-visibility all: CUDA shows a process one MIG device only; type --gpu-visibility own")
			}
			place.GPUs = append(place.GPUs, d.uuid)
			place.Names = append(place.Names, strings.TrimSpace(d.String()+" "+d.gpu.Name))
		}
		place.See = slices.Clone(place.GPUs)
		if q.All {
			for _, d := range devices {
				if !slices.Contains(place.See, d.uuid) {
					place.See = append(place.See, d.uuid)
				}
			}
		}
	}
	for r := range p.Ranks {
		p.Ranks[r].Shared = users[p.Ranks[r].GPUs[0]]
	}
	if !q.All && q.Ranks > 1 && len(devices) > 1 {
		p.Warnings = append(p.Warnings, "each rank sees its own GPU only, so CUDA peer access and IPC between ranks are off; --gpu-visibility all keeps them")
	}
	return first, nil
}

// choose gives every rank positions among the visible devices.
func (m *Machine) choose(devices []device, q Request) ([][]int, error) {
	need, have := q.Ranks*q.GPUsPerRank, len(devices)
	among := "; " + m.numbers()
	if q.VisibleSet {
		among = fmt.Sprintf(" (CUDA_VISIBLE_DEVICES=%s)", q.Visible)
	}
	shares := q.Oversub || q.Map > 1 && q.Per == PerGPU
	switch {
	case have == 0:
		return nil, fmt.Errorf("--gpus-per-rank %d: no GPU is visible%s", q.GPUsPerRank, among)
	case q.GPUsPerRank > have:
		return nil, fmt.Errorf("--gpus-per-rank %d: %d visible%s; type --gpus-per-rank %d", q.GPUsPerRank, have, among, have)
	case q.GPUMap != nil:
		return chooseByMap(have, q)
	case need > have && !shares:
		return nil, fmt.Errorf("--gpus-per-rank %d: %d ranks need %d GPUs, %d visible%s; type -np %d, or --oversubscribe-gpu to let ranks share",
			q.GPUsPerRank, q.Ranks, need, have, among, max(have/q.GPUsPerRank, 1))
	}
	// Ranks that share one device follow each other, as those of one NUMA node do.
	chosen := make([][]int, q.Ranks)
	groups := min(have/q.GPUsPerRank, q.Ranks)
	for r := range chosen {
		group := r * groups / q.Ranks
		if q.Map > 0 && q.Per == PerGPU {
			group = r / q.Map % groups
		}
		for k := range q.GPUsPerRank {
			chosen[r] = append(chosen[r], group*q.GPUsPerRank+k)
		}
	}
	return chosen, nil
}

// chooseByMap follows --gpu-map.
func chooseByMap(have int, q Request) ([][]int, error) {
	if len(q.GPUMap) != q.Ranks*q.GPUsPerRank {
		return nil, fmt.Errorf("--gpu-map: %d entries for %d ranks with %d GPUs each; want %d", len(q.GPUMap), q.Ranks, q.GPUsPerRank, q.Ranks*q.GPUsPerRank)
	}
	used := map[int]int{}
	for i, n := range q.GPUMap {
		if n < 0 || n >= have {
			return nil, fmt.Errorf("--gpu-map: %d: want numbers from 0 to %d, positions among the visible GPUs", n, have-1)
		}
		rank := i / q.GPUsPerRank
		if other, taken := used[n]; taken && (other == rank || !q.Oversub) {
			return nil, fmt.Errorf("--gpu-map: GPU %d is given to rank %d and to rank %d; --oversubscribe-gpu lets ranks share", n, other, rank)
		}
		used[n] = rank
	}
	var chosen [][]int
	for own := range slices.Chunk(q.GPUMap, q.GPUsPerRank) {
		chosen = append(chosen, own)
	}
	return chosen, nil
}
