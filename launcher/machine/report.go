package machine

import (
	"fmt"
	"strings"
)

// Report is one line for each rank, which are numbered from first: where it runs.
func (p *Placement) Report(first int) []string {
	var lines []string
	for r, place := range p.Ranks {
		text := fmt.Sprintf("rank %d: not bound", first+r)
		if place.CPUs != nil {
			text = fmt.Sprintf("rank %d: CPUs %v of NUMA node %d", first+r, place.CPUs, place.Node)
		}
		if len(place.Names) > 0 {
			text += ", " + strings.Join(place.Names, ", ")
		}
		if place.Shared > 1 {
			text += fmt.Sprintf(" (%d ranks share it)", place.Shared)
		}
		if place.See != nil && len(place.See) == 0 {
			text += ", sees no GPU"
		} else if place.See != nil {
			text += ", sees " + strings.Join(place.See, ",")
		}
		lines = append(lines, text)
	}
	return lines
}
