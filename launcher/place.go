package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fpmrun/fpmrun/launcher/keeper"
	"github.com/fpmrun/fpmrun/launcher/machine"
)

// Values of Segment.Ranks besides a number.
const (
	RanksAuto   = -1 // what Options.Map says, else one per visible GPU, else one
	RanksPerGPU = -2 // one per visible GPU
	RanksPerCPU = -3 // one per CPU
)

// GPUs are the devices that ranks get.
type GPUs struct {
	GPUsPerRank int   // 0 leaves CUDA_VISIBLE_DEVICES alone; in a Segment of its own it hides all GPUs
	GPUMap      []int // positions among the visible GPUs, GPUsPerRank for each rank in turn; nil is in order
	SeeAll      bool  // each rank sees all GPUs, its own first; else its own only
	Oversub     bool  // ranks may share GPUs
}

// Resources are the parts of the machine that ranks get.
type Resources struct {
	GPUs
	Bind   machine.Bind // "" is BindNone
	Map    int          // ranks for each Per; 0 is no such wish
	Per    machine.Per
	Round  bool // consecutive ranks go round the NUMA nodes
	Report bool // print where each rank runs
}

// place finds the number of ranks out and gives each its part of the machine; nil when nothing was wished. It looks at the
// GPUs only when it must.
func (o *Options) place() (*machine.Placement, error) {
	r := &o.Resources
	auto := -1 // segment with as many ranks as fit
	for i, s := range o.Segments {
		if s.Ranks < 0 {
			if len(o.Segments) > 1 && r.Map == 0 && s.Ranks == RanksAuto {
				o.Segments[i].Ranks = 1
				continue
			}
			if len(o.Segments) > 1 {
				return nil, errors.New("-np gpu and --map-by ppr:N: go with one program; type -np N for each")
			}
			auto = i
		}
	}
	wish := 0
	if auto >= 0 {
		wish = o.Segments[auto].Ranks
	}
	if wish == RanksAuto && r.Map == 0 && r.GPUsPerRank == 0 && !hasDriver() {
		o.Segments[auto].Ranks, wish = 1, 0
	}
	needGPUs := o.wantGPUs() || r.Per == machine.PerGPU || wish == RanksPerGPU || wish == RanksAuto && r.Map == 0
	if !needGPUs && wish == 0 && r.Map == 0 && !r.Report && (r.Bind == "" || r.Bind == machine.BindNone) {
		return nil, nil
	}
	m, err := machine.Read(os.DirFS("/"))
	if err != nil {
		return nil, err
	}
	if needGPUs {
		if err := o.addGPUs(m); err != nil && (wish != RanksAuto || r.GPUsPerRank > 0) {
			return nil, err
		} else if err != nil {
			o.Segments[auto].Ranks, wish = 1, 0
		}
	}
	if wish != 0 {
		if o.Segments[auto].Ranks, err = o.fitting(m, wish); err != nil {
			return nil, err
		}
	}
	q := o.request()
	for _, s := range o.Segments {
		q.Ranks += s.Ranks
	}
	q.Parts = o.parts()
	return m.Place(q)
}

// wantGPUs reports whether any program wants GPUs of its own, or to see none.
func (o *Options) wantGPUs() bool {
	return o.Resources.GPUsPerRank > 0 || slices.ContainsFunc(o.Segments, func(s Segment) bool { return s.GPUs != nil })
}

// parts are the programs' wishes for GPUs; nil when all have the same.
func (o *Options) parts() []machine.Part {
	if !slices.ContainsFunc(o.Segments, func(s Segment) bool { return s.GPUs != nil }) {
		return nil
	}
	var parts []machine.Part
	for i, s := range o.Segments {
		g := o.Resources.GPUs
		if s.GPUs != nil {
			g = *s.GPUs
		} else if i > 0 {
			g.GPUMap = nil // it is the first program's
		}
		parts = append(parts, machine.Part{Ranks: s.Ranks, GPUsPerRank: g.GPUsPerRank, GPUMap: g.GPUMap, All: g.SeeAll, Oversub: g.Oversub, None: s.GPUs != nil && g.GPUsPerRank == 0})
	}
	return parts
}

// request is what the options want of a machine, without the number of ranks.
func (o *Options) request() machine.Request {
	r := &o.Resources
	q := machine.Request{GPUsPerRank: r.GPUsPerRank, GPUMap: r.GPUMap, All: r.SeeAll, Oversub: r.Oversub, Bind: r.Bind, Map: r.Map, Per: r.Per, Round: r.Round}
	for _, entry := range keeper.Merge(o.Environ, o.Env) {
		if value, ok := strings.CutPrefix(entry, cudaVisible+"="); ok {
			q.Visible, q.VisibleSet = value, true
		}
	}
	return q
}

// fitting is how many ranks a wish other than a number makes.
func (o *Options) fitting(m *machine.Machine, wish int) (int, error) {
	q := o.request()
	if wish == RanksPerCPU {
		return m.CPUCount(), nil
	}
	if o.Resources.Map > 0 {
		return m.Count(q)
	}
	n, err := m.Visible(q)
	if err != nil && wish == RanksAuto && o.Resources.GPUsPerRank == 0 {
		return 1, nil // no GPU that can be used: one rank, as on a machine without
	}
	if err != nil {
		return 0, fmt.Errorf("a rank per GPU: %w", err)
	}
	return max(n/max(o.Resources.GPUsPerRank, 1), 1), nil
}

// hasDriver reports whether this machine runs NVIDIA's driver.
func hasDriver() bool {
	_, err := os.Stat("/proc/driver/nvidia/version")
	return err == nil
}

// gpuDeadline is how long the GPU driver may take to answer.
const gpuDeadline = 10 * time.Second

// gpuProgram lists the GPUs.
const gpuProgram = "fpmgpu"

// addGPUs asks fpmgpu for the machine's GPUs: it is a process of its own, since a driver can hang.
func (o *Options) addGPUs(m *machine.Machine) error {
	path, err := lookUp(gpuProgram, lookup(o.Environ, "PATH"), o.Siblings, "")
	if err != nil {
		return fmt.Errorf("looking for GPUs needs %s beside fpmrun or in PATH: %w", gpuProgram, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), gpuDeadline+time.Second)
	defer cancel()
	list := exec.CommandContext(ctx, path, "list", "--deadline", strconv.FormatFloat(gpuDeadline.Seconds(), 'f', -1, 64))
	list.Env, list.WaitDelay = o.Environ, time.Second
	var said bytes.Buffer
	list.Stderr = &said
	lines, err := list.Output()
	if ctx.Err() != nil {
		return fmt.Errorf("%s has not answered within %v: the GPU driver hangs", path, gpuDeadline+time.Second)
	}
	if err != nil {
		if text := strings.TrimSpace(said.String()); text != "" {
			return errors.New(text)
		}
		return fmt.Errorf("%s list: %w", path, err)
	}
	return m.AddGPUs(lines, os.DirFS("/"))
}

// Names of CUDA's variables.
const (
	cudaVisible = "CUDA_VISIBLE_DEVICES"
	cudaOrder   = "CUDA_DEVICE_ORDER"
)

// apply writes a placement into the ranks of a plan.
func (p *Plan) apply(at *machine.Placement) {
	if at == nil {
		return
	}
	p.Warnings = at.Warnings
	if p.options.Resources.Report {
		p.bindings = at.Report(p.part.First)
	}
	sharers := map[string]int{}
	for _, place := range at.Ranks {
		sharers[place.CPUs.String()]++
	}
	for i := range p.Ranks {
		r, place := &p.Ranks[i], at.Ranks[i]
		r.CPUs, r.GPUs, r.GPUNames = place.CPUs, place.GPUs, place.Names
		if place.See != nil {
			r.Env = append(r.Env, cudaVisible+"="+strings.Join(place.See, ","), cudaOrder+"=PCI_BUS_ID")
		}
		if place.CPUs == nil || len(p.Ranks) == 1 {
			continue
		}
		share := strconv.Itoa(max(1, len(place.CPUs)/sharers[place.CPUs.String()]))
		for _, name := range threadVariables {
			if lookup(keeper.Merge(p.options.Environ, p.options.Env), name) == "" && lookup(r.Env, name) == "" {
				r.Env = append(r.Env, name+"="+share)
			}
		}
	}
}

// threadVariables limit the threads of a program.
var threadVariables = []string{"OMP_NUM_THREADS", "GOMAXPROCS"}

// sharersOf is the value of env.Set.GPUSharers for a rank.
func sharersOf(at *machine.Placement, rank int) int {
	if at == nil {
		return 0
	}
	return at.Ranks[rank].Shared
}
