package rank

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/fpmrun/fpmrun/rank/env"
)

// Sources of an identity.
const (
	FromFPMRun     = "fpmrun"
	FromOpenMPI    = "openmpi"
	FromMPICH      = "mpich" // its hydra, and launchers that speak its protocol
	FromTorchrun   = "torchrun"
	FromSlurm      = "slurm"
	FromKubernetes = "kubernetes" // an Indexed Job
	FromNobody     = "none"       // a world of one
)

// Identity is who a process is in its job.
type Identity struct {
	Source      string // FromFPMRun, ...
	Rank, Size  int
	LocalRank   int          // on this host
	LocalSize   int          // ranks on this host
	Topology    env.Topology // what the launcher was told; zero when it was not
	RunID       string       // name of the launch, the same on all ranks
	Rendezvous  []string     // host:port candidates of rank 0, in order; empty in a world of one
	Host        string       // of rank 0, where the candidates are known only later
	PMI         string       // number of the descriptor that leads to the process manager; empty: none
	Overruled   []string     // what launchers further outside say that say something else
	TokenFile   string       // path of the job's secret; empty: none was given
	StateFile   string
	JobFile     string
	JoinTimeout time.Duration // 0: the default
	Iface       string        // interface or CIDR to meet on; empty: by route
}

// source is a launcher whose variables name a rank. It reports whether they are there, and what is wrong with them.
type source struct {
	name string
	read func(getenv func(string) string) (id Identity, found bool, err error)
	what string // that is missing when it is forced and not there
}

// sources are the launchers, the innermost first: one that starts ranks inside a job of another takes precedence.
var sources = []source{
	{FromFPMRun, fromFPMRun, env.KeyRank + " is not set"},
	{FromOpenMPI, fromOpenMPI, "OMPI_COMM_WORLD_RANK is not set"},
	{FromMPICH, fromMPICH, "PMI_RANK and PMI_SIZE are not set"},
	{FromTorchrun, fromTorchrun, "TORCHELASTIC_RUN_ID and RANK are not set"},
	{FromSlurm, fromSlurm, "this process is no task of a Slurm step"},
	{FromKubernetes, fromKubernetes, "JOB_COMPLETION_INDEX is not set"},
}

// Identify reads a process's identity: that of the innermost launcher. getenv returns "" for a variable that is not set.
func Identify(getenv func(string) string) (Identity, error) {
	forced := getenv(env.KeyIdentity)
	if forced == FromNobody {
		return alone(), nil
	}
	if forced != "" {
		for _, s := range sources {
			if s.name != forced {
				continue
			}
			id, found, err := s.read(getenv)
			if !found && err == nil {
				err = fmt.Errorf("%s=%s, but %s", env.KeyIdentity, forced, s.what)
			}
			return id, err
		}
		return Identity{}, fmt.Errorf("%s=%s: want fpmrun, openmpi, mpich, torchrun, slurm, kubernetes or none", env.KeyIdentity, forced)
	}
	for i, s := range sources {
		id, found, err := s.read(getenv)
		if err != nil {
			return id, err
		}
		if !found {
			continue
		}
		if s.name == FromFPMRun { // it says nothing of launchers further outside, and replaces them on purpose
			return id, nil
		}
		for _, outer := range sources[i+1:] {
			if other, there, err := outer.read(getenv); err == nil && there && (other.Rank != id.Rank || other.Size != id.Size) {
				id.Overruled = append(id.Overruled, other.String())
			}
		}
		return id, nil
	}
	return alone(), nil
}

// String is who a process is, and who says so.
func (id Identity) String() string {
	return fmt.Sprintf("rank %d of %d (%s)", id.Rank, id.Size, id.Source)
}

// fromUser reads what a user may set for ranks that fpmrun did not start.
func (id *Identity) fromUser(getenv func(string) string) (err error) {
	id.TokenFile, id.Iface = getenv(env.KeyTokenFile), getenv(env.KeyIface)
	if limit := getenv(env.KeyJoinTimeout); limit != "" {
		if id.JoinTimeout, err = env.ParseDuration(limit); err != nil {
			return fmt.Errorf("%s=%q: %w", env.KeyJoinTimeout, limit, err)
		}
	}
	if address := getenv(env.KeyRendezvous); address != "" && id.Size > 1 {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("%s=%q: want HOST:PORT, or [V6]:PORT", env.KeyRendezvous, address)
		}
		id.Rendezvous = []string{address}
	}
	return nil
}

// numbers reads variables that are numbers of at least 0, and remembers the first that is none.
type numbers struct {
	getenv func(string) string
	err    error
}

func (n *numbers) read(name string, absent int) int {
	text := n.getenv(name)
	if text == "" {
		return absent
	}
	v, err := strconv.Atoi(text)
	if (err != nil || v < 0) && n.err == nil {
		n.err = fmt.Errorf("%s=%q: want a number", name, text)
	}
	return v
}

// within checks that a rank is one of the world's.
func (n *numbers) within(id *Identity, rank, size string) {
	if n.err == nil && (id.Size < 1 || id.Rank >= id.Size) {
		n.err = fmt.Errorf("%s=%d is outside %s=%d", rank, id.Rank, size, id.Size)
	}
}

func alone() Identity { return Identity{Source: FromNobody, Size: 1, LocalSize: 1} }

func fromFPMRun(getenv func(string) string) (Identity, bool, error) {
	set, ok, err := env.Parse(getenv)
	return fromSet(set), ok, err
}

func fromSet(s env.Set) Identity {
	id := Identity{
		Source: FromFPMRun, Rank: s.Rank, Size: s.WorldSize, LocalRank: s.LocalRank, LocalSize: s.LocalWorldSize, Topology: s.Topology,
		RunID: s.RunID, TokenFile: s.TokenFile, StateFile: s.StateFile, JobFile: s.JobFile, JoinTimeout: s.JoinTimeout, Iface: s.Iface,
	}
	if s.Rendezvous != "" {
		id.Rendezvous = []string{s.Rendezvous}
	}
	return id
}

// Agree is the topology of a process's job: the launcher's and the program's own flags together, whose factors of 0 are not
// given. Flags that say something else than the launcher are an error that names both, and so is a product that is not
// the world's size.
func Agree(id Identity, flags env.Topology) (env.Topology, error) {
	asked := flags
	if id.Topology != (env.Topology{}) {
		for _, f := range []struct {
			name           string
			flag, launcher int
			asked          *int
		}{
			{"dp", flags.DP, id.Topology.DP, &asked.DP}, {"pp", flags.PP, id.Topology.PP, &asked.PP},
			{"pcp", flags.PCP, id.Topology.PCP, &asked.PCP}, {"tp", flags.TP, id.Topology.TP, &asked.TP},
		} {
			if f.flag != 0 && f.flag != f.launcher {
				return env.Topology{}, fmt.Errorf("--%s %d contradicts the launcher's %s (%s); give the topology to one of them, or the same to both", f.name, f.flag, id.Topology, id.Source)
			}
			*f.asked = f.launcher
		}
	}
	t, err := asked.Resolve(id.Size)
	if err != nil {
		return env.Topology{}, fmt.Errorf("topology: %w", err)
	}
	return t, nil
}
