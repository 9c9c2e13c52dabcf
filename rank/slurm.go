package rank

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/fpmrun/fpmrun/rank/env"
)

// Step ids from here on name no real steps: the batch script, the extern step and an interactive shell.
const firstSpecialStep = 4294967290

// candidatePorts is how many ports rank 0 may choose from, in case some are taken.
const candidatePorts = 16

// fromSlurm reads the identity of a task of a Slurm step. found is false outside Slurm, and for a job of one task
// without a step. A job of several tasks without a step is an error: the process would wait for others that never come.
func fromSlurm(getenv func(string) string) (id Identity, found bool, err error) {
	job := getenv("SLURM_JOB_ID")
	if job == "" {
		return Identity{}, false, nil
	}
	number := func(name string, absent int) int {
		text := getenv(name)
		if text == "" {
			return absent
		}
		n, convErr := strconv.Atoi(text)
		if convErr != nil || n < 0 {
			err = fmt.Errorf("%s=%q: want a number", name, text)
		}
		return n
	}
	step, procID := number("SLURM_STEP_ID", -1), number("SLURM_PROCID", -1)
	tasks := number("SLURM_NTASKS", 1)
	if err != nil {
		return Identity{}, true, err
	}
	if procID < 0 || step < 0 || step >= firstSpecialStep {
		if tasks > 1 {
			return Identity{}, true, fmt.Errorf("inside Slurm job %s (%d tasks) but not started by srun; use srun fpmbench, fpmrun fpmbench, or --single", job, tasks)
		}
		return Identity{}, false, nil
	}
	tasks = number("SLURM_STEP_NUM_TASKS", tasks)
	id = Identity{Source: FromSlurm, Rank: procID, Size: tasks, LocalRank: number("SLURM_LOCALID", 0), RunID: slurmRun(getenv)}
	if err != nil {
		return Identity{}, true, err
	}
	if id.Rank >= id.Size {
		return Identity{}, true, fmt.Errorf("SLURM_PROCID=%d is outside the step's %d tasks", id.Rank, id.Size)
	}
	id.LocalSize = strings.Count(getenv("SLURM_GTIDS"), ",") + 1
	id.TokenFile, id.Iface = getenv(env.KeyTokenFile), getenv(env.KeyIface)
	if limit := getenv(env.KeyJoinTimeout); limit != "" {
		if id.JoinTimeout, err = env.ParseDuration(limit); err != nil {
			return Identity{}, true, fmt.Errorf("%s=%q: %w", env.KeyJoinTimeout, limit, err)
		}
	}
	if id.Size > 1 {
		host, err := firstHost(getenv("SLURM_STEP_NODELIST"), getenv("SLURM_STEP_NUM_NODES"))
		if err != nil {
			return Identity{}, true, err
		}
		id.Rendezvous = candidates(host, id.RunID)
	}
	return id, true, nil
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

// candidates are addresses of rank 0 that all ranks compute from the name of the run: ports below the ephemeral range, the
// first that is free is used.
func candidates(host, run string) []string {
	const low, high = 10000, 32000
	sum := sha256.Sum256([]byte("fpm rendezvous " + run))
	list := make([]string, candidatePorts)
	for i := range list {
		port := low + int(binary.BigEndian.Uint16(sum[2*i:]))%(high-low)
		list[i] = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return list
}
