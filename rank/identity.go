package rank

import (
	"errors"
	"fmt"
	"time"

	"github.com/fpmrun/fpmrun/rank/env"
)

// Sources of an identity.
const (
	FromFPMRun = "fpmrun"
	FromSlurm  = "slurm"
	FromNobody = "none" // a world of one
)

// Identity is who a process is in its job.
type Identity struct {
	Source      string // FromFPMRun, FromSlurm or FromNobody
	Rank, Size  int
	LocalRank   int          // on this host
	LocalSize   int          // ranks on this host
	Topology    env.Topology // what the launcher was told; zero when it was not
	RunID       string       // name of the launch, the same on all ranks
	Rendezvous  []string     // host:port candidates of rank 0, in order; empty in a world of one
	TokenFile   string       // path of the job's secret; empty: none was given
	StateFile   string
	JobFile     string
	JoinTimeout time.Duration // 0: the default
	Iface       string        // interface or CIDR to meet on; empty: by route
}

// Identify reads a process's identity. getenv returns "" for a variable that is not set.
func Identify(getenv func(string) string) (Identity, error) {
	forced := getenv(env.KeyIdentity)
	switch forced {
	case "", FromFPMRun, FromSlurm:
	case FromNobody:
		return alone(), nil
	default:
		return Identity{}, fmt.Errorf("%s=%s: want %s, %s or %s", env.KeyIdentity, forced, FromFPMRun, FromSlurm, FromNobody)
	}
	if forced != FromSlurm {
		set, ok, err := env.Parse(getenv)
		if ok || err != nil {
			return fromSet(set), err
		}
		if forced == FromFPMRun {
			return Identity{}, fmt.Errorf("%s=%s, but %s is not set", env.KeyIdentity, forced, env.KeyRank)
		}
	}
	id, found, err := fromSlurm(getenv)
	if found || err != nil {
		return id, err
	}
	if forced == FromSlurm {
		return Identity{}, errors.New(env.KeyIdentity + "=slurm, but this process is no task of a Slurm step")
	}
	return alone(), foreign(getenv)
}

// foreign refuses to be a world of one among several processes that a launcher started which is not understood here: each
// of them would do the whole work.
func foreign(getenv func(string) string) error {
	if index := getenv("JOB_COMPLETION_INDEX"); index != "" && getenv(env.KeyWorldSize) != "" && getenv(env.KeyWorldSize) != "1" {
		return fmt.Errorf("started by Kubernetes (JOB_COMPLETION_INDEX=%s, %s=%s), whose pods cannot meet here; use --single for independent runs", index, env.KeyWorldSize, getenv(env.KeyWorldSize))
	}
	for _, l := range []struct{ name, rank, size string }{
		{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"MPICH", "PMI_RANK", "PMI_SIZE"},
		{"torchrun", "RANK", "WORLD_SIZE"},
	} {
		size := getenv(l.size)
		if size == "" || size == "1" || l.name == "torchrun" && getenv("TORCHELASTIC_RUN_ID") == "" {
			continue
		}
		return fmt.Errorf("started by %s (%s=%s, %s=%s), whose ranks cannot meet here; use fpmrun or srun, or --single for independent runs", l.name, l.rank, getenv(l.rank), l.size, size)
	}
	return nil
}

func alone() Identity { return Identity{Source: FromNobody, Size: 1, LocalSize: 1} }

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
