package launcher

import (
	"errors"
	"fmt"
)

// layout is where the ranks of one node are in the world: ranks are numbered by node, one block after the other.
type layout struct {
	Node  int `json:"node"`  // 0 to Nodes-1
	Nodes int `json:"nodes"` // of the job
	First int `json:"first"` // world rank of the node's first
	World int `json:"world"` // ranks of the job
}

// alone is the layout of a job of so many ranks on one node.
func alone(ranks int) layout { return layout{Nodes: 1, World: ranks} }

// total is the number of ranks of some programs.
func total(counts []int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// layouts are those of nodes whose programs have so many ranks each.
func layouts(counts [][]int) []layout {
	list := make([]layout, len(counts))
	world := 0
	for i, c := range counts {
		list[i] = layout{Node: i, Nodes: len(counts), First: world}
		world += total(c)
	}
	for i := range list {
		list[i].World = world
	}
	return list
}

// spread cuts the ranks of a job, program by program, into blocks for nodes with so many places: counts[node][program]. Without
// places the blocks are equal, the first ones larger by one where that does not divide.
func spread(programs []int, nodes int, places []int) ([][]int, error) {
	ranks := total(programs)
	if ranks < nodes {
		return nil, fmt.Errorf("-np %d: %d nodes want at least a rank each; type -np %d, or --nnodes %d", ranks, nodes, nodes, max(ranks, 1))
	}
	if places == nil {
		for i := range nodes {
			larger := 0
			if i < ranks%nodes {
				larger = 1
			}
			places = append(places, ranks/nodes+larger)
		}
	}
	if total(places) != ranks {
		return nil, fmt.Errorf("-np %d: %d ranks have a place", ranks, total(places))
	}
	counts := make([][]int, nodes)
	program, used := 0, 0
	for i, room := range places {
		counts[i] = make([]int, len(programs))
		for room > 0 {
			n := min(room, programs[program]-used)
			counts[i][program] += n
			room, used = room-n, used+n
			if used == programs[program] {
				program, used = program+1, 0
			}
		}
	}
	return counts, nil
}

// counts are the ranks of each program on this node; an error where they are not known without looking at the node.
func (o *Options) counts() ([]int, error) {
	var list []int
	for _, s := range o.Segments {
		if s.Ranks < 0 {
			return nil, errors.New("-np gpu, cpu and auto count for each node; type --nproc-per-node with them")
		}
		list = append(list, s.Ranks)
	}
	return list, nil
}
