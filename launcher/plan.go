package launcher

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/fpmrun/fpmrun/launcher/keeper"
	"github.com/fpmrun/fpmrun/launcher/machine"
	"github.com/fpmrun/fpmrun/rank/env"
)

// Rank is one process of a plan.
type Rank struct {
	Rank int      `json:"rank"`
	Node int      `json:"node,omitempty"`
	Path string   `json:"path"`
	Args []string `json:"args"` // argv, the program's name first
	Env  []string `json:"env"`  // what is added to the job's environment; the paths of the job's files come when it starts
	Dir  string   `json:"dir"`

	CPUs machine.CPUs `json:"cpus,omitempty"` // that it is bound to; none: all that are allowed
	GPUs []string     `json:"gpus,omitempty"` // UUIDs of its own

	GPUNames []string `json:"gpu_names,omitempty"` // of these, for people
}

// Plan is a job that was checked and not started.
type Plan struct {
	RunID    string       `json:"run_id"`
	Topology env.Topology `json:"topology"`
	Ranks    []Rank       `json:"ranks"`
	Warnings []string     `json:"warnings,omitempty"` // about the placement
	Step     []string     `json:"step,omitempty"`     // command that starts the nodes' agents

	bindings []string // where each rank runs, as it was asked to report
	environ  []string // environment that all ranks share
	options  Options
	part     part // of a job over several nodes
}

// NewPlan checks options, finds the programs and lays the ranks out.
func NewPlan(o Options) (*Plan, error) {
	at, err := o.place()
	if err != nil {
		return nil, err
	}
	ranks := 0
	for _, s := range o.Segments {
		ranks += s.Ranks
	}
	return o.lay(at, alone(ranks), newRunID())
}

// newRunID names a launch.
func newRunID() string {
	id := make([]byte, 16)
	rand.Read(id) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(id)
}

// lay lays the ranks of this node out, the placement of which is at.
func (o Options) lay(at *machine.Placement, l layout, runID string) (*Plan, error) {
	if err := o.validate(l); err != nil {
		return nil, err
	}
	p := &Plan{RunID: runID, options: o, part: part{layout: l}}
	world, local := l.World, 0
	for _, s := range o.Segments {
		local += s.Ranks
	}
	if err := o.room(l, local); err != nil {
		return nil, err
	}
	var err error
	if o.Topology != (env.Topology{}) {
		if p.Topology, err = o.Topology.Resolve(world); err != nil {
			return nil, fmt.Errorf("-np %d: %w; %s", world, err, fits(o.Topology.Ranks(), world))
		}
	}
	p.environ = keeper.Merge(shares(env.Strip(o.Environ), local), o.Env)
	for _, s := range o.Segments {
		path, err := lookUp(s.Program, lookup(keeper.Merge(p.environ, s.Env), "PATH"), o.Siblings, s.Dir)
		if err != nil {
			return nil, err
		}
		for range s.Ranks {
			own := len(p.Ranks)
			rank := l.First + own
			set := env.Set{Rank: rank, WorldSize: world, LocalRank: own, LocalWorldSize: local, NodeRank: l.Node, Nodes: l.Nodes, Topology: p.Topology, GPUSharers: sharersOf(at, own),
				RunID: p.RunID, Restarts: o.attempt, MaxRestarts: o.Restarts, JoinTimeout: o.JoinTimeout, Iface: o.Iface, TLS: o.TLS}
			p.Ranks = append(p.Ranks, Rank{Rank: rank, Node: l.Node, Path: path, Args: append([]string{s.Program}, s.Args...), Env: append(slices.Clone(s.Env), set.Environ()...), Dir: s.Dir})
		}
	}
	p.apply(at)
	return p, nil
}

// fits says what to type instead of -np world with a topology of that many ranks.
func fits(product, world int) string {
	if below := world / product * product; below > 0 && below != world {
		return fmt.Sprintf("type -np %d or -np %d, or another factor", below, below+product)
	}
	return fmt.Sprintf("type -np %d, or another factor", product)
}

// shares limits the threads of each rank to its share of the CPUs where the ranks would otherwise compete, and keeps
// Python from holding output back. What the user set stays.
func shares(environ []string, ranks int) []string {
	set := func(name, value string) {
		if lookup(environ, name) == "" {
			environ = append(environ, name+"="+value)
		}
	}
	if ranks > 1 {
		share := strconv.Itoa(max(1, allowedCPUs()/ranks))
		for _, name := range threadVariables {
			set(name, share)
		}
	}
	set("PYTHONUNBUFFERED", "1")
	return environ
}

// allowedCPUs is how many CPUs' worth of time this process gets: its affinity, or its cgroup's quota where that is less.
func allowedCPUs() int {
	cpus, err := machine.Affinity()
	if err != nil {
		return runtime.NumCPU()
	}
	m := machine.Machine{Allowed: cpus, Quota: machine.Quota(os.DirFS("/"))}
	return m.CPUCount()
}

// lookup is a variable of an environment, or "".
func lookup(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}
