package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// starter starts fpmbench on two ranks in a folder, the way a launcher does. It skips the test where the launcher is missing.
type starter func(t *testing.T, dir string, bench []string)

// outside runs another launcher's program with fpmbench behind it.
func outside(program string, flags ...string) starter {
	return func(t *testing.T, dir string, bench []string) {
		t.Helper()
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skipf("needs %s", program)
		}
		cmd := command(t, dir, "fpmrun")
		cmd.Path, cmd.Args = path, append(append([]string{program}, flags...), bench...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
}

// byTorchrun runs torchrun itself. Both flags of outputs are given because their defaults stop torch 1.13 under Python 3.11.
func byTorchrun(t *testing.T, dir string, bench []string) {
	t.Helper()
	outside("torchrun", "--no_python", "--monitor_interval", "0.1", "--nproc_per_node", "2", "--master_port", strconv.Itoa(freePorts(t, 1)[0]), "--redirects", "0:1,1:1", "--tee", "0:2,1:2")(t, dir, bench)
}

// byVariables starts both ranks with the variables that torchrun gives to its workers.
func byVariables(t *testing.T, dir string, bench []string) {
	t.Helper()
	port := strconv.Itoa(freePorts(t, 1)[0])
	var ranks [2]*exec.Cmd
	var said [2]strings.Builder
	for r := range ranks {
		rank := strconv.Itoa(r)
		ranks[r] = command(t, dir, "fpmbench", bench[1:]...)
		ranks[r].Env = append(ranks[r].Env, "TORCHELASTIC_RUN_ID=none", "RANK="+rank, "WORLD_SIZE=2", "LOCAL_RANK="+rank, "LOCAL_WORLD_SIZE=2", "GROUP_RANK=0", "MASTER_ADDR=localhost", "MASTER_PORT="+port)
		ranks[r].Stdout, ranks[r].Stderr = &said[r], &said[r]
		if err := ranks[r].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for r, cmd := range ranks {
		if err := cmd.Wait(); err != nil {
			t.Errorf("rank %d: %v\n%s", r, err, said[r].String())
		}
	}
}

// byPods starts them as the two pods of an Indexed Job.
func byPods(t *testing.T, dir string, bench []string) {
	t.Helper()
	p := newPods(t)
	bench = append([]string{filepath.Join(bin, bench[0])}, bench[1:]...)
	both := []*pod{p.start(1, dir, nil, bench...), p.start(0, dir, nil, bench...)}
	for i, one := range both {
		if err := one.Wait(); err != nil {
			t.Errorf("pod %d: %v\n%s", 1-i, err, one.said)
		}
	}
}

// The same points and seed have the same inputs, whatever started the ranks: prompt hashes, grid digest and point keys, and fpmstat diff says so.
func TestSameInputsUnderEveryLauncher(t *testing.T) {
	points := pointsFile(t, false)
	bench := func(flags ...string) []string {
		return append([]string{"fpmbench", "--points-file", points, "--content-seed", "seven", "--output-path", "benchmark.json"}, flags...)
	}
	alone := t.TempDir() // a plain process, which is DP 1
	succeed(t, alone, "fpmbench", bench()[1:]...)
	plain := filepath.Join(alone, "benchmark.json")
	byFpmrun := t.TempDir()
	succeed(t, byFpmrun, "fpmrun", append([]string{"-np", "2"}, bench()...)...)

	for name, start := range map[string]starter{
		"fpmrun": func(t *testing.T, dir string, bench []string) {
			succeed(t, dir, "fpmrun", append([]string{"-np", "2"}, bench...)...)
		},
		"srun":                 bySrun,
		"open mpi":             outside("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2"),
		"mpich":                outside("mpiexec.hydra", "-np", "2"),
		"torchrun":             byTorchrun,
		"torchrun's variables": byVariables,
		"kubernetes":           byPods,
	} {
		t.Run(name, func(t *testing.T) {
			for _, layout := range []string{"dp", "tp"} {
				dir := t.TempDir()
				start(t, dir, bench("--"+layout, "2"))
				if t.Failed() {
					return
				}
				if layout == "tp" {
					sameInputs(t, plain, filepath.Join(dir, "benchmark.json"))
					continue
				}
				for rank := range 2 {
					file := filepath.Base([]string{"benchmark.json", "benchmark_dp1.json"}[rank])
					sameInputs(t, filepath.Join(byFpmrun, file), filepath.Join(dir, file))
				}
				sameInputs(t, plain, filepath.Join(dir, "benchmark.json"))
				saysIdentical(t, byFpmrun, dir)
			}
		})
	}
}

// bySrun starts them as tasks of a step on the two nodes of a real Slurm.
func bySrun(t *testing.T, dir string, bench []string) {
	t.Helper()
	lab := newSlurm(t)
	if r := lab.run(dir, "", append([]string{"srun", "--overcommit", "-N2", "-n2"}, bench...)...); r.status != 0 {
		t.Errorf("status %d\n%s", r.status, r.stderr)
	}
}

// sameInputs compares what two rank documents were fed with.
func sameInputs(t *testing.T, a, b string) {
	t.Helper()
	if *read(t, a).GridDigest != *read(t, b).GridDigest {
		t.Errorf("%s has another grid digest", b)
	}
	want, got := prompts(t, a), prompts(t, b)
	if len(got) != len(want) || len(got) == 0 {
		t.Errorf("%s has %d point keys, want %d", b, len(got), len(want))
	}
	for key, p := range want {
		if q, ok := got[key]; !ok || *q.SHA256 != *p.SHA256 {
			t.Errorf("%s has no point %s with the same prompts", b, key)
		}
	}
	saysIdentical(t, a, b)
}

// saysIdentical checks what fpmstat diff says of two runs.
func saysIdentical(t *testing.T, a, b string) {
	t.Helper()
	if r := succeed(t, t.TempDir(), "fpmstat", "diff", a, b); !strings.Contains(r.stdout, "inputs identical") {
		t.Errorf("fpmstat diff of %s and %s does not say that the inputs are identical\n%s", a, b, r.stdout)
	}
}

// Without a shared topology the ranks of two launchers inside each other are those of the inner one, and rank 0 says what the outer one is.
func TestInnermostLauncher(t *testing.T) {
	if _, err := exec.LookPath("mpiexec.hydra"); err != nil {
		t.Skip("needs mpiexec.hydra")
	}
	dir := t.TempDir()
	step := []string{"SLURM_JOB_ID=42", "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=vm", "SLURM_STEP_NUM_NODES=1"}
	cmd := command(t, dir, "fpmrun")
	path, err := exec.LookPath("mpiexec.hydra")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = path
	cmd.Args = append([]string{"mpiexec.hydra", "-launcher", "fork", "-rmk", "user", "-np", "2", "env"}, append(step, "fpmbench", "--points-file", points(t), "--output-path", "benchmark.json")...)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), `taken="rank 0 of 2 (mpich)" other="rank 0 of 1 (slurm)"`) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	files, _ := rankFiles(dir, 2)
	for rank, file := range files {
		if doc := read(t, file); doc.DP.Size != 2 || doc.DP.Rank != rank {
			t.Errorf("%s: %+v", file, doc.DP)
		}
	}
	if err := os.Remove(files[0]); err != nil {
		t.Error(fmt.Errorf("rank 0 wrote nothing: %w", err))
	}
}
