package test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// srun starts the ranks itself, on one node and on two.
func TestSlurmDirect(t *testing.T) {
	lab := newSlurm(t)
	for _, c := range []struct{ nodes, ranks int }{{1, 1}, {1, 2}, {2, 2}, {2, 4}, {2, 8}} {
		t.Run(fmt.Sprintf("%d ranks on %d nodes", c.ranks, c.nodes), func(t *testing.T) {
			lab.t = t
			dir := t.TempDir()
			r := lab.run(dir, "", "srun", "--overcommit", "-N"+strconv.Itoa(c.nodes), "-n"+strconv.Itoa(c.ranks), "fpmbench", "--points-file", points(t), "--output-path", "benchmark.json")
			if r.status != 0 {
				t.Fatalf("status %d\n%s", r.status, r.stderr)
			}
			files, all := rankFiles(dir, c.ranks)
			check(t, all...)
			for rank, path := range files {
				if doc := read(t, path); doc.DP.Rank != rank || doc.DP.Size != c.ranks {
					t.Errorf("%s: %+v", path, doc.DP)
				}
			}
			if c.ranks > 1 && !strings.Contains(text(t, files[0]), `"auth": "munge"`) {
				t.Error("the ranks did not meet by MUNGE")
			}
		})
	}
	for _, c := range []struct {
		name   string
		script string
		status int
		want   []string // patterns of what is printed
	}{
		{"block distribution", `srun -N2 -n5 --overcommit sh -c 'echo $SLURM_PROCID on $(hostname); launchprog join barrier allreduce leave'`, 0, []string{"(?m)^2 on n1$", "(?m)^3 on n2$"}},
		{"cyclic distribution", `srun -N2 -n5 --overcommit -m cyclic sh -c 'echo $SLURM_PROCID on $(hostname); launchprog join barrier allreduce leave'`, 0, []string{"(?m)^1 on n2$", "(?m)^2 on n1$"}},
		{"plane distribution", `srun -N2 -n5 --overcommit -m plane=2 sh -c 'echo $SLURM_PROCID on $(hostname); launchprog join barrier allreduce leave'`, 0, []string{"(?m)^2 on n2$", "(?m)^4 on n1$"}},
		{"a failing rank", `srun -N2 -n4 --overcommit launchprog join barrier 2:exit=7 barrier`, 7, []string{`task 2: Exited with exit code 7`, `rank 2`}},
		{"a killed rank", `srun -N2 -n4 --overcommit launchprog join barrier 3:crash barrier`, 137, []string{`rank 3`}},
		{"a rank that does not come", `FPM_JOIN_TIMEOUT=2s srun -W0 -N2 -n4 --overcommit sh -c '[ $SLURM_PROCID = 3 ] || exec launchprog join'`, 1, []string{`3 of 4 arrived: missing 3`}},
		{"many ranks by MUNGE", `srun -N2 -n64 --overcommit launchprog join barrier allreduce leave`, 0, nil},
		{"many ranks by PMI2", `srun --mpi=pmi2 -N2 -n64 --overcommit launchprog join barrier allreduce leave`, 0, nil},
		{"several programs of one step", `srun -N2 -n3 --overcommit sh -c 'launchprog join barrier leave && launchprog join barrier leave'`, 0, nil},
		{"an interactive shell", `fpmbench; echo status $?`, 0, []string{`inside Slurm job \d+ \(4 tasks\) but not started by srun; use srun fpmbench, fpmrun fpmbench, or --single`, `(?m)^status 2$`}},
		{"a shell for itself", `fpmbench --single --engine sim --max-num-seqs 1 --max-num-batched-tokens 4 --max-model-len 16 --output-path o/benchmark.json >out; echo status $?`, 0, []string{`(?m)^status 0$`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab.t = t
			r := lab.job(4, c.script)
			if r.status != c.status {
				t.Errorf("status %d, want %d", r.status, c.status)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(r.stdout + r.stderr) {
					t.Errorf("nothing like %q", want)
				}
			}
			lab.nothingLeft()
			if t.Failed() {
				t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
			}
		})
	}
	t.Run("an interactive step", func(t *testing.T) {
		lab.t = t
		r := lab.run(t.TempDir(), "env | grep ^SLURM_STEP_ID; fpmbench; echo status $?\n", "salloc", "-Q", "-n3", "--overcommit")
		if r.status != 0 || !strings.Contains(r.stdout, "status 2\n") || !strings.Contains(r.stdout, "SLURM_STEP_ID=4294967290\n") || !strings.Contains(r.stderr, "(3 tasks) but not started by srun") {
			t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
		}
	})
}

// Two steps that run at once and may choose among the same ports each find their own ranks.
func TestSlurmTwoSteps(t *testing.T) {
	lab := newSlurm(t)
	port := freePorts(t, 1)[0]
	for _, secret := range []string{"", "FPM_TOKEN=0123456789abcdef ", "FPM_MUNGE_SOCKET=/none "} {
		t.Run(secret, func(t *testing.T) {
			lab.t = t
			r := lab.job(4, fmt.Sprintf(`for step in 1 2; do
				%ssrun --overlap --overcommit -N2 -n3 env SLURM_STEP_RESV_PORTS=%d-%d launchprog join barrier allreduce touch=up$step barrier leave & jobs="$jobs $!"
			done
			for job in $jobs; do wait $job || exit; done`, secret, port, port+7))
			if r.status != 0 {
				t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
			}
		})
	}
}

// text is the content of a file.
func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
