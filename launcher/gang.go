package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/fpmrun/fpmrun/launcher/keeper"
	"github.com/fpmrun/fpmrun/launcher/machine"
	"github.com/fpmrun/fpmrun/rank/env"
)

// planError is a failure of planning and the exit status for it.
type planError struct {
	status int
	err    error
}

func (e *planError) Error() string { return e.err.Error() }
func (e *planError) Unwrap() error { return e.err }

// unfit says that a job cannot be as the command line wants it.
func unfit(err error) error { return &planError{2, err} }

// plan makes the plan of an attempt: every node looks at itself, and the head lays the ranks out.
func (c *cluster) plan(ctx context.Context, s *session, attempt int) (*Plan, error) {
	o := c.options
	o.attempt = attempt
	given, err := o.perNode()
	if err != nil {
		return nil, err
	}
	counts, at, err := c.count(ctx, s, o, given)
	if err != nil {
		return nil, err
	}
	lays := layouts(counts)
	if err := o.fits(lays[0]); err != nil {
		return nil, unfit(err)
	}
	return c.layOut(ctx, s, o, at, counts, lays)
}

// Check finds what is wrong with a job over several nodes before any other node is there, as far as that can be known.
func (o Options) Check() error {
	given, err := o.perNode()
	if err != nil {
		return err
	}
	if given != nil {
		if err := o.fits(layouts(given)[0]); err != nil {
			return err
		}
	}
	if o.Nodes.Step {
		return nil
	}
	environ := keeper.Merge(o.Environ, o.Env)
	for _, s := range o.Segments {
		if _, err := lookUp(s.Program, lookup(keeper.Merge(environ, s.Env), "PATH"), o.Siblings, s.Dir); err != nil {
			return err
		}
	}
	return nil
}

// perNode are the ranks of each program on each node; nil where the nodes decide.
func (o *Options) perNode() ([][]int, error) {
	n := o.Nodes
	if !n.Spread {
		return nil, nil
	}
	programs, err := o.counts()
	if err != nil {
		return nil, err
	}
	return spread(programs, n.Nodes, n.Places)
}

// fits checks what can be known of a job before its nodes lay their ranks out.
func (o *Options) fits(l layout) error {
	if err := o.validate(l); err != nil {
		return err
	}
	if o.Topology == (env.Topology{}) {
		return nil
	}
	_, err := o.Topology.Resolve(l.World)
	if err != nil {
		return fmt.Errorf("%d ranks on %d nodes: %w; %s", l.World, l.Nodes, err, fits(o.Topology.Ranks(), l.World))
	}
	return nil
}

// count learns how many ranks of each program each node has.
func (c *cluster) count(ctx context.Context, s *session, o Options, given [][]int) (counts [][]int, at *machine.Placement, err error) {
	counts = make([][]int, len(c.nodes))
	for _, r := range c.there() {
		r.over = false
		a := &ask{Attempt: o.attempt}
		if c.options.Nodes.Step {
			a.Options = &o
		}
		if given != nil {
			a.Counts = given[r.Node]
		}
		if err := r.link.send(toAgent{Ask: a}); err != nil {
			return nil, nil, err
		}
	}
	if c.here() {
		if given != nil {
			o.give(given[0])
		}
		if at, err = o.place(); err != nil { //nolint:contextcheck // the inventory has a deadline of its own
			return nil, nil, unfit(err)
		}
		if counts[0], err = o.counts(); err != nil {
			return nil, nil, unfit(err)
		}
	}
	return counts, at, c.collect(ctx, s, func(l letter) bool {
		if len(l.Counted) != len(o.Segments) || slices.Min(l.Counted) < 0 {
			return false
		}
		counts[l.from.Node] = l.Counted
		return true
	})
}

// give sets the programs' numbers of ranks.
func (o *Options) give(counts []int) {
	list := make([]Segment, len(o.Segments))
	copy(list, o.Segments)
	for i := range list {
		list[i].Ranks = counts[i]
	}
	o.Segments = list
}

// collect reads letters until every agent has answered.
func (c *cluster) collect(ctx context.Context, s *session, answer func(letter) bool) error {
	waiting := map[*remote]bool{}
	for _, r := range c.there() {
		waiting[r] = true
	}
	if len(waiting) == 0 {
		return nil
	}
	return c.await(ctx, s, nil, func(l letter) (bool, error) {
		switch {
		case !waiting[l.from] && (l.from.Node < 0 || c.nodes[l.from.Node] != l.from):
			if l.Hello != nil {
				c.refuse(l.from, 1, "the job has its nodes already")
			}
		case l.err != nil:
			l.from.lost = l.err
			return false, fmt.Errorf("%v was lost: %s", l.from, lossText(l.err))
		case l.Failed != nil:
			return false, &planError{l.Failed.Status, fmt.Errorf("%v: %s", l.from, l.Failed.Text)}
		case l.Signal != 0 && ends(l.Signal):
			return false, interrupted{l.Signal}
		case answer(l):
			delete(waiting, l.from)
		}
		return len(waiting) == 0, nil
	})
}

// layOut tells every node its ranks, and puts their plans together.
func (c *cluster) layOut(ctx context.Context, s *session, o Options, at *machine.Placement, counts [][]int, lays []layout) (p *Plan, err error) {
	runID := newRunID()
	plans := make([]planned, len(c.nodes))
	var ports []*reservation
	defer func() {
		if err != nil {
			release(ports)
		}
	}()
	for _, r := range c.there() {
		l := &lay{layout: lays[r.Node], RunID: runID}
		if r.Node == 0 {
			l.Host = c.address()
		}
		if err := r.link.send(toAgent{Lay: l}); err != nil {
			return nil, err
		}
	}
	var first *Plan
	if c.here() {
		o.give(counts[0])
		if first, err = o.lay(at, lays[0], runID); err != nil {
			return nil, unfit(err)
		}
		host := c.address()
		if iface := o.iface(); iface != "" {
			if host, err = env.AddressOn(iface); err != nil {
				return nil, unfit(fmt.Errorf("--iface %s: %w", iface, err))
			}
		}
		if ports, err = reserve(host); err != nil {
			return nil, err
		}
		plans[0] = planned{Ranks: first.Ranks, Warnings: first.Warnings, Bindings: first.bindings}
		plans[0].meet(ports)
	}
	if err = c.collect(ctx, s, func(l letter) bool {
		if l.Planned == nil {
			return false
		}
		plans[l.from.Node] = *l.Planned
		return true
	}); err != nil {
		return nil, err
	}
	p = &Plan{RunID: runID, options: o, part: part{layout: lays[0], meeting: plans[0].meeting, token: newToken(), ports: ports, cluster: c}}
	if c.here() {
		p.environ, p.Topology = first.environ, first.Topology
	} else {
		p.part.Node = -1 // no rank is here
	}
	for i, one := range plans {
		if len(one.Ranks) != total(counts[i]) {
			return nil, fmt.Errorf("%v: a plan of %d ranks, want %d", c.nodes[i], len(one.Ranks), total(counts[i]))
		}
		for k, r := range one.Ranks {
			r.Rank, r.Node = lays[i].First+k, i
			p.Ranks = append(p.Ranks, r)
		}
		p.bindings = append(p.bindings, one.Bindings...)
		for _, text := range one.Warnings {
			if slices.Contains(p.Warnings, text) {
				continue // what concerns all is said once
			}
			if c.nodes[i] != nil && strings.Contains(text, "rank ") {
				text = c.nodes[i].String() + ": " + text // whose ranks it counts
			}
			p.Warnings = append(p.Warnings, text)
		}
	}
	return p, nil
}

// iface is the interface, or network, that the ranks meet on, by flag or variable; "" is by route.
func (o *Options) iface() string {
	if o.Iface != "" {
		return o.Iface
	}
	return lookup(keeper.Merge(o.Environ, o.Env), env.KeyIface)
}

// address is an address of the head that other nodes have reached it at, one that is not the host's own where there is any.
func (c *cluster) address() string {
	best := loopback()
	for _, r := range c.there() {
		host, _, err := net.SplitHostPort(r.link.conn.LocalAddr().String())
		if ip := net.ParseIP(host); err == nil && ip != nil && !ip.IsLoopback() {
			return host
		}
	}
	return best
}

// depart starts the ranks of the other nodes.
func (c *cluster) depart(p *Plan, s Streams) error {
	for _, r := range c.there() {
		d := &departure{meeting: p.part.meeting, Token: p.part.token, Stdin: p.options.Stdin, Events: s.Events != nil}
		if s.In == nil || !readable(s.In) {
			d.Stdin = StdinNone
		}
		if err := r.link.send(toAgent{Go: d}); err != nil {
			return err
		}
	}
	return nil
}

// settle ends a plan's attempt on all nodes and waits until nothing of it is left there. What else is said meanwhile is returned.
func (c *cluster) settle(p *Plan) []letter {
	if c == nil {
		return nil
	}
	defer func() {
		for _, r := range p.Ranks {
			if at := c.nodes[r.Node]; at != nil { // flows whose rank was never started have no end of their own
				at.link.cut(flowOf(p.options.attempt, r.Rank, 1))
				at.link.cut(flowOf(p.options.attempt, r.Rank, 2))
			}
		}
	}()
	var late []letter
	for _, r := range c.there() {
		_ = r.link.send(toAgent{Finish: true}) // one that is lost is told of below
	}
	for _, r := range c.there() {
		for !r.over {
			select {
			case l := <-c.inbox:
				switch {
				case l.Done:
					l.from.over = true
				case l.err != nil && c.mine(l.from):
					l.from.over = true
					fallthrough
				default:
					late = append(late, l)
				}
			case <-c.over:
				return late
			}
		}
	}
	return late
}

func (c *cluster) mine(r *remote) bool { return r.Node >= 0 && c.nodes[r.Node] == r }

// exitOfPlanning is how a job ends that could not be planned.
func exitOfPlanning(err error) End {
	var stopped interrupted
	var node *planError
	var missing *NotFoundError
	switch {
	case errors.As(err, &stopped):
		return End{Status: 128 + int(stopped.sig), Class: BySignal, Reason: stopped.Error(), Err: err}
	case errors.As(err, &missing):
		return End{Status: missing.Status, Class: NotStarted, Err: err}
	case errors.As(err, &node):
		end := End{Status: node.status, Class: ByLauncher, Err: err}
		if node.status == 126 || node.status == 127 {
			end.Class = NotStarted
		}
		return end
	}
	return End{Status: 1, Class: ByLauncher, Err: err}
}
