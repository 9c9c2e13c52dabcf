package main

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

const (
	defaultGrace = 10 * time.Second
	leastGrace   = time.Second
	slurmReserve = 5 * time.Second // of Slurm's own grace time, for fpmrun to end after its ranks
	slurmAnswer  = 2 * time.Second // that scontrol may take
)

// killWait is the line of Slurm's configuration that says how long after its SIGTERM a job is killed.
var killWait = regexp.MustCompile(`(?m)^KillWait\s*=\s*(\d+) sec`)

// grace is the time from the kill signal to SIGKILL where none was asked for: in a Slurm job what the site leaves, so that Slurm does not kill fpmrun before
// it has said what became of the ranks.
func grace(ctx context.Context, environ []string) time.Duration {
	if lookup(environ, "SLURM_JOB_ID") == "" {
		return defaultGrace
	}
	ctx, cancel := context.WithTimeout(ctx, slurmAnswer)
	defer cancel()
	cmd := exec.CommandContext(ctx, "scontrol", "show", "config")
	cmd.Env = environ
	text, err := cmd.Output()
	if err != nil {
		return defaultGrace // Slurm's variables without Slurm
	}
	return graceOf(string(text))
}

// graceOf is the grace time that a configuration leaves.
func graceOf(config string) time.Duration {
	found := killWait.FindStringSubmatch(config)
	if found == nil {
		return defaultGrace
	}
	seconds, err := strconv.Atoi(found[1])
	if err != nil {
		return defaultGrace
	}
	return max(leastGrace, time.Duration(seconds)*time.Second-slurmReserve)
}
