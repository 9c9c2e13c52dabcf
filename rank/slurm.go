package rank

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Step ids from here on name no real steps: the batch script, the extern step and an interactive shell.
const firstSpecialStep = 4294967290

// fromSlurm reads the identity of a task of a Slurm step. found is false outside Slurm, and for a job of one task
// without a step. A job of several tasks without a step is an error: the process would wait for others that never come.
func fromSlurm(getenv func(string) string) (id Identity, found bool, err error) {
	job := getenv("SLURM_JOB_ID")
	if job == "" {
		return Identity{}, false, nil
	}
	n := numbers{getenv: getenv}
	number := n.read
	step, procID := number("SLURM_STEP_ID", -1), number("SLURM_PROCID", -1)
	tasks := number("SLURM_NTASKS", 1)
	if n.err != nil {
		return Identity{}, true, n.err
	}
	if procID < 0 || step < 0 || step >= firstSpecialStep {
		if tasks > 1 {
			return Identity{}, true, fmt.Errorf("inside Slurm job %s (%d tasks) but not started by srun; use srun fpmbench, fpmrun fpmbench, or --single", job, tasks)
		}
		return Identity{}, false, nil
	}
	tasks = number("SLURM_STEP_NUM_TASKS", tasks)
	id = Identity{Source: FromSlurm, Rank: procID, Size: tasks, LocalRank: number("SLURM_LOCALID", 0), RunID: slurmRun(getenv)}
	if n.err != nil {
		return Identity{}, true, n.err
	}
	if id.Rank >= id.Size {
		return Identity{}, true, fmt.Errorf("SLURM_PROCID=%d is outside the step's %d tasks", id.Rank, id.Size)
	}
	id.LocalSize = strings.Count(getenv("SLURM_GTIDS"), ",") + 1
	if id.Size > 1 {
		if id.Host, err = firstHost(getenv("SLURM_STEP_NODELIST"), getenv("SLURM_STEP_NUM_NODES")); err != nil {
			return Identity{}, true, err
		}
		id.Rendezvous = candidates(id.Host, id.RunID)
		if ports := getenv("SLURM_STEP_RESV_PORTS"); ports != "" {
			if id.Rendezvous, err = reserved(id.Host, ports); err != nil {
				return Identity{}, true, err
			}
		}
		if getenv("PMI_RANK") == strconv.Itoa(id.Rank) {
			id.PMI = getenv("PMI_FD")
		}
	}
	return id, true, id.fromUser(getenv)
}

// reserved are the addresses of a step's reserved ports, a list such as 12000-12003,12010.
func reserved(host, ports string) ([]string, error) {
	var list []string
	for part := range strings.SplitSeq(ports, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 1 || last < first || last > 65535 {
			return nil, fmt.Errorf("SLURM_STEP_RESV_PORTS=%q: want ports such as 12000-12003", ports)
		}
		for port := first; port <= last && len(list) < candidatePorts; port++ {
			list = append(list, net.JoinHostPort(host, strconv.Itoa(port)))
		}
	}
	return list, nil
}

// slurmRun names a launch: job, step and restart together are unique.
func slurmRun(getenv func(string) string) string {
	restart := getenv("SLURM_RESTART_COUNT")
	if restart == "" {
		restart = "0"
	}
	return "slurm-" + getenv("SLURM_JOB_ID") + "." + getenv("SLURM_STEP_ID") + "." + restart
}

// firstHost is the first host of a compressed list such as n[1-2,7] or vm: the host of rank 0. A step on one node meets on
// its loopback interface, whatever the node's name resolves to.
func firstHost(list, nodes string) (string, error) {
	if nodes == "1" {
		return "127.0.0.1", nil
	}
	first, rest, bracket := strings.Cut(list, "[")
	if comma := strings.IndexByte(first, ','); comma >= 0 {
		first, bracket = first[:comma], false
	}
	if first == "" {
		return "", fmt.Errorf("SLURM_STEP_NODELIST=%q names no host", list)
	}
	if !bracket {
		return first, nil
	}
	end := strings.IndexAny(rest, "-,]")
	if end < 1 {
		return "", fmt.Errorf("SLURM_STEP_NODELIST=%q: want a list such as n[1-2]", list)
	}
	return first + rest[:end], nil
}
