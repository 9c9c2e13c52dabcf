package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// placeGPUs gives devices out; it returns each rank's first GPU, nil for none.
func (m *Machine) placeGPUs(p *Placement, q Request) ([]*GPU, error) {
	first := make([]*GPU, q.Ranks)
	parts := q.parts()
	if !q.wantsGPUs() {
		hide(p, parts)
		return first, nil
	}
	devices, err := m.visible(q.Visible, q.VisibleSet)
	if err != nil {
		return nil, err
	}
	chosen, err := m.give(devices, q)
	if err != nil {
		return nil, err
	}
	hide(p, parts)
	users := map[string]int{}
	alone := false // some rank sees less than all
	r := 0
	for _, part := range parts {
		for range part.Ranks {
			if part.GPUsPerRank > 0 {
				if err := p.Ranks[r].see(devices, chosen[r], part); err != nil {
					return nil, err
				}
				first[r] = devices[chosen[r][0]].gpu
				users[p.Ranks[r].GPUs[0]]++
				alone = alone || !part.All
			}
			r++
		}
	}
	for r := range p.Ranks {
		if own := p.Ranks[r].GPUs; own != nil {
			p.Ranks[r].Shared = users[own[0]]
		}
	}
	if alone && len(devices) > 1 && q.Ranks > 1 {
		p.Warnings = append(p.Warnings, "each rank sees its own GPU only, so CUDA peer access and IPC between ranks are off; --gpu-visibility all keeps them")
	}
	return first, nil
}

// hide lets the ranks of parts that want no device see none.
func hide(p *Placement, parts []Part) {
	r := 0
	for _, part := range parts {
		for range part.Ranks {
			if part.None {
				p.Ranks[r].See = []string{}
			}
			r++
		}
	}
}

// see gives a rank the devices at own, and shows it the others where the part wants that.
func (p *Place) see(devices []device, own []int, part Part) error {
	for _, i := range own {
		d := devices[i]
		if d.mig && (part.GPUsPerRank > 1 || part.All && len(devices) > 1) {
			if part.GPUsPerRank > 1 {
				return fmt.Errorf("--gpus-per-rank %d: %w", part.GPUsPerRank, errMIG)
			}
			return errors.New("--gpu-visibility all: CUDA shows a process one MIG device only; type --gpu-visibility own")
		}
		p.GPUs = append(p.GPUs, d.uuid)
		p.Names = append(p.Names, strings.TrimSpace(d.String()+" "+d.gpu.Name))
	}
	p.See = slices.Clone(p.GPUs)
	if part.All {
		for _, d := range devices {
			if !slices.Contains(p.See, d.uuid) {
				p.See = append(p.See, d.uuid)
			}
		}
	}
	return nil
}

// give gives every rank positions among the visible devices: parts with a map first, then the others what these left over, or
// everything where they may share.
func (m *Machine) give(devices []device, q Request) ([][]int, error) {
	chosen := make([][]int, q.Ranks)
	owner := map[int]int{} // position -> rank
	parts := q.parts()
	for _, mapped := range []bool{true, false} {
		rank := 0
		for _, part := range parts {
			begin := rank
			rank += part.Ranks
			if part.GPUsPerRank == 0 || (part.GPUMap != nil) != mapped {
				continue
			}
			own, err := m.choose(devices, q, part, begin, owner)
			if err != nil {
				return nil, err
			}
			copy(chosen[begin:], own)
			for i, positions := range own {
				for _, n := range positions {
					owner[n] = begin + i
				}
			}
		}
	}
	return chosen, nil
}

// choose gives the ranks of one part, the first of which is begin, positions among the visible devices.
func (m *Machine) choose(devices []device, q Request, part Part, begin int, owner map[int]int) ([][]int, error) {
	have := len(devices)
	among := "; " + m.numbers()
	if q.VisibleSet {
		among = fmt.Sprintf(" (CUDA_VISIBLE_DEVICES=%s)", q.Visible)
	}
	shares := part.Oversub || q.Map > 1 && q.Per == PerGPU
	switch {
	case have == 0:
		return nil, fmt.Errorf("--gpus-per-rank %d: no GPU is visible%s", part.GPUsPerRank, among)
	case part.GPUsPerRank > have:
		return nil, fmt.Errorf("--gpus-per-rank %d: %d visible%s; type --gpus-per-rank %d", part.GPUsPerRank, have, among, have)
	case part.GPUMap != nil:
		return chooseByMap(have, part, begin, owner)
	}
	var free []int
	for n := range have {
		if _, taken := owner[n]; !taken || shares {
			free = append(free, n)
		}
	}
	if taken := have - len(free); taken > 0 {
		among = " and free" + among
	}
	if need := part.Ranks * part.GPUsPerRank; need > len(free) && !shares {
		fits := len(free) / part.GPUsPerRank
		if fits == 0 && len(free) < have {
			return nil, fmt.Errorf("--gpus-per-rank %d: %d ranks need %d GPUs, %d visible%s; --oversubscribe-gpu lets ranks share", part.GPUsPerRank, part.Ranks, need, len(free), among)
		}
		return nil, fmt.Errorf("--gpus-per-rank %d: %d ranks need %d GPUs, %d visible%s; type -np %d, or --oversubscribe-gpu to let ranks share",
			part.GPUsPerRank, part.Ranks, need, len(free), among, max(fits, 1))
	}
	// Ranks that share one device follow each other, as those of one NUMA node do.
	chosen := make([][]int, part.Ranks)
	groups := min(len(free)/part.GPUsPerRank, part.Ranks)
	for r := range chosen {
		group := r * groups / part.Ranks
		if q.Map > 0 && q.Per == PerGPU {
			group = r / q.Map % groups
		}
		for k := range part.GPUsPerRank {
			chosen[r] = append(chosen[r], free[group*part.GPUsPerRank+k])
		}
	}
	return chosen, nil
}

// chooseByMap follows --gpu-map.
func chooseByMap(have int, part Part, begin int, owner map[int]int) ([][]int, error) {
	if len(part.GPUMap) != part.Ranks*part.GPUsPerRank {
		return nil, fmt.Errorf("--gpu-map: %d entries for %d ranks with %d GPUs each; want %d", len(part.GPUMap), part.Ranks, part.GPUsPerRank, part.Ranks*part.GPUsPerRank)
	}
	used := map[int]int{}
	for n, rank := range owner {
		used[n] = rank
	}
	for i, n := range part.GPUMap {
		if n < 0 || n >= have {
			return nil, fmt.Errorf("--gpu-map: %d: want numbers from 0 to %d, positions among the visible GPUs", n, have-1)
		}
		rank := begin + i/part.GPUsPerRank
		if other, taken := used[n]; taken && (other == rank || !part.Oversub) {
			return nil, fmt.Errorf("--gpu-map: GPU %d is given to rank %d and to rank %d; --oversubscribe-gpu lets ranks share", n, other, rank)
		}
		used[n] = rank
	}
	var chosen [][]int
	for own := range slices.Chunk(part.GPUMap, part.GPUsPerRank) {
		chosen = append(chosen, own)
	}
	return chosen, nil
}
