package launcher

import (
	"fmt"
	"strconv"
	"strings"
)

// Allocation is the Slurm allocation that this process runs in, outside any step of it.
type Allocation struct {
	Job    string
	Nodes  int
	Tasks  int   // that the allocation was made for; 0: not said
	Places []int // of these, on each node; nil: not said
}

// Step ids from here on name no real steps: the batch script, the extern step and an interactive shell.
const firstSpecialStep = 4294967290

// FindAllocation reads the environment of a Slurm job. ok is false outside of one, and in a task of a step, which is a rank
// already.
func FindAllocation(environ []string) (a Allocation, ok bool, err error) {
	if a.Job = lookup(environ, "SLURM_JOB_ID"); a.Job == "" {
		return a, false, nil
	}
	if step, err := strconv.Atoi(lookup(environ, "SLURM_STEP_ID")); err == nil && step < firstSpecialStep && lookup(environ, "SLURM_PROCID") != "" {
		return a, false, nil
	}
	number := func(names ...string) int {
		for _, name := range names {
			text := lookup(environ, name)
			if text == "" {
				continue
			}
			n, bad := strconv.Atoi(text)
			if bad != nil || n < 1 {
				err = fmt.Errorf("%s=%q: want a number of at least 1", name, text)
			}
			return n
		}
		return 0
	}
	a.Nodes = max(number("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), 1)
	a.Tasks = number("SLURM_NTASKS", "SLURM_NPROCS")
	if err != nil {
		return a, true, err
	}
	if text := lookup(environ, "SLURM_TASKS_PER_NODE"); text != "" && a.Tasks > 0 {
		places, err := tasksPerNode(text)
		if err != nil {
			return a, true, err
		}
		if len(places) == a.Nodes && total(places) == a.Tasks { // else it counts CPUs, not tasks
			a.Places = places
		}
	}
	return a, true, nil
}

// tasksPerNode reads a list such as 3,2 or 2(x3),1.
func tasksPerNode(text string) ([]int, error) {
	var places []int
	for part := range strings.SplitSeq(text, ",") {
		number, times, repeated := strings.Cut(strings.TrimSuffix(part, ")"), "(x")
		n, err := strconv.Atoi(number)
		count := 1
		if repeated && err == nil {
			count, err = strconv.Atoi(times)
		}
		if err != nil || n < 0 || count < 1 || len(places)+count > 1<<16 {
			return nil, fmt.Errorf("SLURM_TASKS_PER_NODE=%q: want a list such as 3,2 or 2(x3)", text)
		}
		for range count {
			places = append(places, n)
		}
	}
	return places, nil
}
