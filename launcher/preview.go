package launcher

import "fmt"

// Preview is the plan of this node of a job over several, made without the others: they are taken to have as many ranks.
func Preview(o Options) (*Plan, error) {
	n := o.Nodes
	given, err := o.perNode()
	if err != nil {
		return nil, err
	}
	if given != nil {
		o.give(given[n.Node])
	}
	at, err := o.place()
	if err != nil {
		return nil, err
	}
	counts := given
	if counts == nil {
		own, err := o.counts()
		if err != nil {
			return nil, err
		}
		for range n.Nodes {
			counts = append(counts, own)
		}
	}
	l := layouts(counts)[n.Node]
	if err := o.fits(l); err != nil {
		return nil, err
	}
	return o.lay(at, l, newRunID())
}

// PreviewStep is the plan of a job that a Slurm step starts: the command that starts the agents, and the ranks of all nodes, as far as
// they can be known without looking at the nodes.
func PreviewStep(o Options) (*Plan, error) {
	heads, err := Heads(o.iface(), "PORT")
	if err != nil {
		return nil, err
	}
	words, err := StepCommand(&o, heads)
	if err != nil {
		return nil, err
	}
	given, err := o.perNode()
	if err != nil {
		return nil, err
	}
	if given == nil {
		own := make([]int, len(o.Segments))
		for i, s := range o.Segments {
			if own[i] = s.Ranks; s.Ranks < 0 {
				return nil, fmt.Errorf("the nodes decide how many ranks they have; type -np N to see where %d nodes would run them", o.Nodes.Nodes)
			}
		}
		for range o.Nodes.Nodes {
			given = append(given, own)
		}
	}
	whole := &Plan{RunID: newRunID(), Step: words}
	for i, l := range layouts(given) {
		if err := o.fits(l); err != nil {
			return nil, err
		}
		part := o
		part.give(given[i])
		p, err := part.lay(nil, l, whole.RunID)
		if err != nil {
			return nil, err
		}
		whole.Topology = p.Topology
		whole.Ranks = append(whole.Ranks, p.Ranks...)
	}
	return whole, nil
}
