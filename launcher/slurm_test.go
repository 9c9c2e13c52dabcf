package launcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindAllocation(t *testing.T) {
	for _, c := range []struct {
		name, environ string
		want          Allocation
		ok            bool
	}{
		{"outside", "PATH=/bin", Allocation{}, false},
		{"salloc", "SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_NTASKS=5 SLURM_TASKS_PER_NODE=3,2", Allocation{"7", 2, 5, []int{3, 2}}, true},
		{"batch script", "SLURM_JOB_ID=7 SLURM_NNODES=3 SLURM_NTASKS=5 SLURM_TASKS_PER_NODE=2(x2),1 SLURM_PROCID=0", Allocation{"7", 3, 5, []int{2, 2, 1}}, true},
		{"interactive step", "SLURM_JOB_ID=7 SLURM_NNODES=2 SLURM_STEP_ID=4294967290 SLURM_PROCID=0", Allocation{"7", 2, 0, nil}, true},
		{"nodes alone", "SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_TASKS_PER_NODE=8(x2)", Allocation{"7", 2, 0, nil}, true},
		{"task of a step", "SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_PROCID=1", Allocation{Job: "7"}, false},
	} {
		got, ok, err := FindAllocation(strings.Fields(c.environ))
		if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok || err != nil {
			t.Errorf("%s: %v %v (-want +got)\n%s", c.name, ok, err, diff)
		}
	}
	for _, environ := range []string{"SLURM_JOB_ID=7 SLURM_NNODES=two", "SLURM_JOB_ID=7 SLURM_NTASKS=2 SLURM_TASKS_PER_NODE=2(y3)"} {
		if _, _, err := FindAllocation(strings.Fields(environ)); err == nil {
			t.Errorf("%s was accepted", environ)
		}
	}
}
