package env

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Set is what fpmrun tells one rank. Parse(s.Environ()) returns s.
type Set struct {
	Rank           int // world rank, 0 to WorldSize-1
	WorldSize      int // ranks in the job, at least 1
	LocalRank      int // rank on its node, 0 to LocalWorldSize-1
	LocalWorldSize int // ranks on its node, at least 1
	NodeRank       int // node number, 0 to Nodes-1
	Nodes          int // nodes of the job, at least 1

	Topology Topology // zero: fpmrun was given none, the program chooses

	Rendezvous string // host:port of rank 0; empty: none
	MasterAddr string // host of torch's store; empty: none is offered
	MasterPort int    // its port
	RunID      string // fresh per launch

	TokenFile string // path of the job's secret; empty: none
	StateFile string // path of the state pages of this host's ranks; empty: none
	JobFile   string // path of the job page; empty: none

	Restarts    int // how often the gang was restarted before this launch
	MaxRestarts int // how often it may be

	GPUSharers int // ranks that use this rank's GPU, which is the first that it sees; zero: fpmrun gave it none

	JoinTimeout time.Duration // limit of the join; zero: the rank's default
	Iface       string        // interface name or CIDR; empty: by route
	TLS         string        // which connections are encrypted: auto, off or on; empty: auto
}

// Environ returns the variables as NAME=VALUE, in the order of Vars. Values that are empty or zero where zero means
// "none" have no variable.
func (s Set) Environ() []string {
	var out []string
	str := func(name, v string) {
		if v != "" {
			out = append(out, name+"="+v)
		}
	}
	num := func(name string, v int) { str(name, strconv.Itoa(v)) }
	num(KeyRank, s.Rank)
	num(KeyWorldSize, s.WorldSize)
	num(KeyLocalRank, s.LocalRank)
	num(KeyLocalWorldSize, s.LocalWorldSize)
	num(KeyNodeRank, s.NodeRank)
	num(KeyNodes, s.Nodes)
	if s.Topology != (Topology{}) {
		at := s.Topology.Place(s.Rank)
		num(KeyDPRank, at.DP)
		num(KeyDPSize, s.Topology.DP)
		num(KeyPPRank, at.PP)
		num(KeyPPSize, s.Topology.PP)
		num(KeyPCPRank, at.PCP)
		num(KeyPCPSize, s.Topology.PCP)
		num(KeyTPRank, at.TP)
		num(KeyTPSize, s.Topology.TP)
	}
	str(KeyRendezvous, s.Rendezvous)
	str(KeyRunID, s.RunID)
	str(KeyTokenFile, s.TokenFile)
	str(KeyStateFile, s.StateFile)
	str(KeyJobFile, s.JobFile)
	num(KeyRestartCount, s.Restarts)
	if s.GPUSharers > 0 {
		num(KeyLocalGPU, 0)
		num(KeyGPUSharers, s.GPUSharers)
	}
	num(TorchRank, s.Rank)
	num(TorchWorldSize, s.WorldSize)
	num(TorchLocalRank, s.LocalRank)
	num(TorchLocalWorldSize, s.LocalWorldSize)
	num(TorchGroupRank, s.NodeRank)
	num(TorchGroupWorldSize, s.Nodes)
	str(TorchRoleName, "default")
	num(TorchRoleRank, s.Rank)
	num(TorchRoleWorldSize, s.WorldSize)
	if s.MasterAddr != "" {
		str(TorchMasterAddr, s.MasterAddr)
		num(TorchMasterPort, s.MasterPort)
	}
	str(TorchRunID, s.RunID)
	num(TorchRestartCount, s.Restarts)
	num(TorchMaxRestarts, s.MaxRestarts)
	if s.JoinTimeout != 0 {
		str(KeyJoinTimeout, s.JoinTimeout.String())
	}
	str(KeyIface, s.Iface)
	str(KeyTLS, s.TLS)
	return out
}

// Parse reads a rank's variables. ok is false, with no error, when FPM_RANK is not set: another launcher, or none,
// started this process. An error names the variable, its value, and what would be right. getenv returns "" for an
// unset variable, as os.Getenv does.
func Parse(getenv func(string) string) (s Set, ok bool, err error) {
	if getenv(KeyRank) == "" {
		return Set{}, false, nil
	}
	p := parser{getenv: getenv}
	s.WorldSize = p.number(KeyWorldSize, 1, maxWorld, 1)
	s.Rank = p.number(KeyRank, 0, s.WorldSize-1, 0)
	s.LocalWorldSize = p.number(KeyLocalWorldSize, 1, s.WorldSize, 1)
	s.LocalRank = p.number(KeyLocalRank, 0, s.LocalWorldSize-1, 0)
	s.Nodes = p.number(KeyNodes, 1, s.WorldSize, 1)
	s.NodeRank = p.number(KeyNodeRank, 0, s.Nodes-1, 0)
	s.Topology = p.topology(s.Rank, s.WorldSize)
	s.Rendezvous = getenv(KeyRendezvous)
	if s.Rendezvous != "" {
		p.fail(KeyRendezvous, checkHostPort(s.Rendezvous))
	}
	if s.MasterAddr = getenv(TorchMasterAddr); s.MasterAddr != "" {
		s.MasterPort = p.number(TorchMasterPort, 0, 65535, 0)
	}
	s.RunID = getenv(KeyRunID)
	s.TokenFile, s.StateFile, s.JobFile = getenv(KeyTokenFile), getenv(KeyStateFile), getenv(KeyJobFile)
	s.Restarts = p.number(KeyRestartCount, 0, maxWorld, 0)
	if getenv(KeyLocalGPU) != "" {
		p.number(KeyLocalGPU, 0, 0, 0)
		s.GPUSharers = p.number(KeyGPUSharers, 1, s.LocalWorldSize, 1)
	}
	s.MaxRestarts = p.number(TorchMaxRestarts, 0, maxWorld, 0)
	s.Iface, s.TLS = getenv(KeyIface), getenv(KeyTLS)
	if v := getenv(KeyJoinTimeout); v != "" {
		var derr error
		s.JoinTimeout, derr = ParseDuration(v)
		p.fail(KeyJoinTimeout, derr)
	}
	if p.err != nil {
		return Set{}, true, p.err
	}
	return s, true, nil
}

// maxWorld bounds every number in the environment; far above any job, far below overflow of a product of two.
const maxWorld = 1 << 20

// parser keeps the first error.
type parser struct {
	getenv func(string) string
	err    error
}

func (p *parser) fail(name string, err error) {
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("env: %s=%q: %w", name, p.getenv(name), err)
	}
}

// number reads an integer from low to high; absent stands for an unset variable.
func (p *parser) number(name string, low, high, absent int) int {
	v := p.getenv(name)
	if v == "" {
		return absent
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		p.fail(name, fmt.Errorf("want a number from %d to %d", low, max(low, high)))
		return absent
	}
	return n
}

// topology reads the four sizes, and checks that the ranks beside them are those of the world rank.
func (p *parser) topology(rank, world int) Topology {
	t := Topology{
		DP: p.number(KeyDPSize, 1, maxWorld, 0), PP: p.number(KeyPPSize, 1, maxWorld, 0),
		PCP: p.number(KeyPCPSize, 1, maxWorld, 0), TP: p.number(KeyTPSize, 1, maxWorld, 0),
	}
	if t == (Topology{}) || p.err != nil {
		return Topology{}
	}
	t, err := t.Resolve(world)
	if err != nil {
		p.err = fmt.Errorf("env: FPM_DP_SIZE, FPM_PP_SIZE, FPM_PCP_SIZE, FPM_TP_SIZE: %w", err)
		return Topology{}
	}
	at := t.Place(rank)
	for _, c := range []struct {
		name string
		want int
	}{{KeyDPRank, at.DP}, {KeyPPRank, at.PP}, {KeyPCPRank, at.PCP}, {KeyTPRank, at.TP}} {
		if got := p.number(c.name, 0, maxWorld, c.want); got != c.want {
			p.fail(c.name, fmt.Errorf("rank %d of %v has %d", rank, t, c.want))
		}
	}
	return t
}

func checkHostPort(v string) error {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return fmt.Errorf("want host:port or [v6]:port: %w", err)
	}
	n, err := strconv.Atoi(port)
	if host == "" || err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("want host:port with a port from 1 to 65535")
	}
	return nil
}

// ParseDuration reads Go's syntax ("90s", "1h30m") or a bare number of seconds ("90", "0.5"). Negative is refused.
func ParseDuration(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		sec, ferr := strconv.ParseFloat(v, 64)
		if ferr != nil || !(sec >= 0 && sec <= 1e9) {
			return 0, fmt.Errorf("%q is not a duration: want 90s, 2m30s, or a number of seconds up to 1e9", v)
		}
		d = time.Duration(sec * float64(time.Second))
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative: want 0 or more", v)
	}
	return d, nil
}

// foreign are the prefixes of variables with which other launchers name a rank's place; fpmrun replaces them.
var foreign = []string{"OMPI_", "PMI_", "PMI2_", "PMIX_", "TORCHELASTIC_"}

// Strip returns environ without what an outer launcher said about this process's place: every variable that fpmrun
// sets, and the identity of Open MPI, PMI, PMIx and torchrun. Everything else passes.
func Strip(environ []string) []string {
	own := make(map[string]bool, len(Vars))
	for _, v := range Vars {
		own[v.Name] = v.SetBy == byLauncher
	}
	out := make([]string, 0, len(environ))
next:
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if own[name] {
			continue
		}
		for _, prefix := range foreign {
			if strings.HasPrefix(name, prefix) {
				continue next
			}
		}
		out = append(out, kv)
	}
	return out
}
