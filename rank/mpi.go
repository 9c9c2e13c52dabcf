package rank

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// errSeveralHosts is a world of Open MPI whose ranks do not know where rank 0 is.
var errSeveralHosts = errors.New("started by Open MPI on several hosts, where no rank knows the address of rank 0; set FPM_RENDEZVOUS=HOST:PORT to a free port of rank 0's host (mpirun -x FPM_RENDEZVOUS), or start one fpmrun on each node")

// fromOpenMPI reads the variables that Open MPI's mpirun gives to its processes. Those of one host meet on its loopback interface, at ports that follow from the
// job's name space.
func fromOpenMPI(getenv func(string) string) (id Identity, found bool, err error) {
	if getenv("OMPI_COMM_WORLD_RANK") == "" {
		return Identity{}, false, nil
	}
	n := numbers{getenv: getenv}
	id = Identity{Source: FromOpenMPI, Rank: n.read("OMPI_COMM_WORLD_RANK", 0), Size: n.read("OMPI_COMM_WORLD_SIZE", 0),
		LocalRank: n.read("OMPI_COMM_WORLD_LOCAL_RANK", 0), LocalSize: n.read("OMPI_COMM_WORLD_LOCAL_SIZE", 1)}
	n.within(&id, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
	if n.err != nil {
		return Identity{}, true, n.err
	}
	job := getenv("PMIX_NAMESPACE")
	if job == "" {
		job = getenv("OMPI_MCA_ess_base_jobid")
	}
	id.RunID = "openmpi-" + job
	if id.LocalSize == id.Size && job != "" {
		id.Rendezvous = candidates("127.0.0.1", id.RunID)
	}
	if err := id.fromUser(getenv); err != nil {
		return Identity{}, true, err
	}
	if id.Size > 1 && len(id.Rendezvous) == 0 {
		return Identity{}, true, errSeveralHosts
	}
	return id, true, nil
}

// fromMPICH reads the variables of launchers that speak the Process Management Interface, MPICH's hydra first of all. Secret and address are agreed on over
// PMI_FD. What srun --mpi=pmi2 started is Slurm's.
func fromMPICH(getenv func(string) string) (id Identity, found bool, err error) {
	if getenv("PMI_RANK") == "" || getenv("PMI_SIZE") == "" || ofSlurm(getenv) {
		return Identity{}, false, nil
	}
	n := numbers{getenv: getenv}
	id = Identity{Source: FromMPICH, Rank: n.read("PMI_RANK", 0), Size: n.read("PMI_SIZE", 0),
		LocalRank: n.read("MPI_LOCALRANKID", 0), LocalSize: n.read("MPI_LOCALNRANKS", 1), PMI: getenv("PMI_FD"), Host: "127.0.0.1"}
	n.within(&id, "PMI_RANK", "PMI_SIZE")
	if n.err != nil {
		return Identity{}, true, n.err
	}
	if id.LocalSize != id.Size {
		if id.Host, err = os.Hostname(); err != nil {
			return Identity{}, true, err
		}
	}
	if err := id.fromUser(getenv); err != nil {
		return Identity{}, true, err
	}
	if id.Size > 1 && id.PMI == "" && len(id.Rendezvous) == 0 {
		return Identity{}, true, fmt.Errorf("started by MPICH (PMI_RANK=%d, PMI_SIZE=%d) without PMI_FD, by which its ranks could meet; set FPM_RENDEZVOUS=HOST:PORT to a free port of rank 0's host", id.Rank, id.Size)
	}
	return id, true, nil
}

// ofSlurm reports whether the variables of the Process Management Interface are those of a step's own tasks.
func ofSlurm(getenv func(string) string) bool {
	step, err := strconv.Atoi(getenv("SLURM_STEP_ID"))
	return err == nil && step < firstSpecialStep && getenv("HYDI_CONTROL_FD") == "" &&
		getenv("SLURM_PROCID") == getenv("PMI_RANK") && getenv("SLURM_STEP_NUM_TASKS") == getenv("PMI_SIZE")
}
