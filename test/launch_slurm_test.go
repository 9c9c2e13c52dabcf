package test

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"testing"
)

// task prepares launchprog as a task of a Slurm step of four, with the variables that Slurm sets and nothing of PMI.
func task(t *testing.T, id int, words ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, t.TempDir(), "fpmrun")
	cmd.Path, cmd.Args = prog, append([]string{prog}, words...)
	cmd.Env = append(cmd.Env, "SLURM_JOB_ID=4242", "SLURM_STEP_ID=7", "SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_NODELIST=here", "SLURM_STEP_NUM_NODES=1",
		"SLURM_GTIDS=0,1,2,3", fmt.Sprintf("SLURM_PROCID=%d", id), fmt.Sprintf("SLURM_LOCALID=%d", id))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return cmd, &stderr
}

// Four processes that srun started without PMI are a world of four; one that is alone says who is missing, and a process of the job
// outside any step is not rank 0 of one.
func TestLaunchCase36SlurmWithoutPMI(t *testing.T) {
	var tasks [4]*exec.Cmd
	var said [4]*bytes.Buffer
	for id := range tasks {
		tasks[id], said[id] = task(t, id, "join", "barrier", "allreduce", "leave")
		if err := tasks[id].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for id, cmd := range tasks {
		if err := cmd.Wait(); err != nil {
			t.Errorf("task %d: %v\n%s", id, err, said[id])
		}
	}
	lone, why := task(t, 0, "join")
	lone.Env = append(lone.Env, "FPM_JOIN_TIMEOUT=300ms")
	if err := lone.Run(); err == nil || !regexp.MustCompile(`1 of 4 arrived: missing 1-3`).Match(why.Bytes()) {
		t.Errorf("alone: %v, want that 1-3 are missing\n%s", err, why)
	}
	outside, why := task(t, 0, "join")
	outside.Env = append(outside.Env, "SLURM_STEP_ID=", "SLURM_PROCID=")
	if err := outside.Run(); err == nil || !regexp.MustCompile(`inside Slurm job 4242 \(4 tasks\) but not started by srun`).Match(why.Bytes()) {
		t.Errorf("outside a step: %v\n%s", err, why)
	}
}
