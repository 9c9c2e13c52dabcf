package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// longPoints is a points file whose points, all of one shape, take a simulated H200 a tenth of a second each with llama-3.1-8b.
func longPoints(t *testing.T, n int) string {
	t.Helper()
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"batch_size":1,"total_prefill_tokens":4096,"total_kv_read_tokens":%d}`, 16*i))
	}
	path := filepath.Join(t.TempDir(), "long.json")
	if err := os.WriteFile(path, []byte(`{"schema_version":1,"prefill":[`+strings.Join(list, ",")+`],"decode":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// sim is fpmbench over such points.
func sim(points string) string {
	return "fpmbench --engine sim --model llama-3.1-8b --mode prefill --points-file " + points + " --output-path out/benchmark.json"
}

// fpmrun inside a batch script runs on the job's nodes, and its status is the script's.
func TestSlurmBatch(t *testing.T) {
	lab := newSlurm(t)
	for _, c := range []struct {
		name, script string
		tasks        int
		want         string
	}{
		{"fpmrun", "fpmrun launchprog join barrier allreduce leave && fpmrun sh -c 'echo $FPM_RANK on $(hostname)' | sort", 3, "0 on n1\n1 on n1\n2 on n2\nstatus 0\n"},
		{"a failing rank", "fpmrun launchprog join 2:exit=7 barrier 2>/dev/null", 3, "status 7\n"},
		{"fpmbench without srun", "fpmbench 2>&1", 3, "fpmbench: inside Slurm job [0-9]+ \\(3 tasks\\) but not started by srun; use srun fpmbench, fpmrun fpmbench, or --single\nstatus 2\n"},
		{"fpmbench alone", "fpmbench --dry-run 2>/dev/null | grep -c 'dp 1 x'", 1, "1\nstatus 0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab.t = t
			dir := t.TempDir()
			nodes := "-N" + strconv.Itoa(min(2, c.tasks))
			lab.batch(dir, c.script+"\necho status $?\n: >done\n", "-n"+strconv.Itoa(c.tasks), nodes, "-oout", "-eerr")
			lab.file(filepath.Join(dir, "done"), 0)
			if got := text(t, filepath.Join(dir, "out")); !regexp.MustCompile("^" + c.want + "$").MatchString(got) {
				t.Errorf("printed\n%swant\n%s%s", got, c.want, text(t, filepath.Join(dir, "err")))
			}
		})
	}
}

// The example is a whole job: it measures on two nodes, stops and comes back when its signal arrives, and checks what it wrote.
func TestSlurmExample(t *testing.T) {
	lab := newSlurm(t)
	dir := t.TempDir()
	script := text(t, filepath.Join("..", "examples", "job.sbatch"))
	job := lab.batch(dir, strings.TrimPrefix(script, "#!/bin/bash\n"), "--export=ALL,FPM_ENGINE=sim,FPM_MODEL=llama-3.1-8b,FPM_MODE=prefill,FPM_POINTS_FILE="+longPoints(t, 30), "-oout")
	out := filepath.Join(dir, "fpm-results", "slurm-"+job)
	lab.file(filepath.Join(out, "benchmark.journal"), 8192)
	if r := lab.run(dir, "", "scancel", "-s", "USR1", job+".0"); r.status != 0 {
		t.Fatal(r.stderr)
	}
	for said := ""; strings.Count(said, ": ok (") < 6; {
		said = lab.file(filepath.Join(dir, "out"), len(said)+1)
	}
	files, all := rankFiles(out, 4)
	check(t, all...)
	for _, path := range files {
		doc := read(t, path)
		own, _ := json.Marshal(doc.FPMRun)
		if doc.Status != "complete" || len(doc.Results) != 30 || strings.Count(string(own), `"process":`) < 2 || !strings.Contains(string(own), `"auth":"pmi"`) {
			t.Errorf("%s: %s, %d results, %.300s", path, doc.Status, len(doc.Results), own)
		}
	}
}

// Each task of an array measures in a folder of its own.
func TestSlurmArray(t *testing.T) {
	lab := newSlurm(t)
	dir := t.TempDir()
	lab.batch(dir, "fpmrun -np 2 fpmbench --points-file "+points(t)+" --output-path $SLURM_ARRAY_TASK_ID/benchmark.json >/dev/null\necho $? >>status$SLURM_ARRAY_TASK_ID\n", "-n2", "-N1", "--array=0-2")
	runs := map[string]bool{}
	for task := range 3 {
		if status := lab.file(filepath.Join(dir, fmt.Sprintf("status%d", task)), 2); status != "0\n" {
			t.Fatalf("task %d: status %s", task, status)
		}
		files, all := rankFiles(filepath.Join(dir, strconv.Itoa(task)), 2)
		check(t, all...)
		runs[read(t, files[0]).RunID] = true
	}
	if len(runs) != 3 {
		t.Errorf("%d run ids of 3 runs", len(runs))
	}
}

// scancel's signal stops the run at the next point, with what it has measured.
func TestSlurmCancel(t *testing.T) {
	lab := newSlurm(t)
	dir := t.TempDir()
	job := lab.batch(dir, "srun --overcommit -n2 "+sim(longPoints(t, 500))+" >/dev/null\necho $? >status\n", "-n2", "-N2")
	lab.file(filepath.Join(dir, "out", "benchmark.journal"), 4096)
	if r := lab.run(dir, "", "scancel", "-s", "TERM", job+".0"); r.status != 0 {
		t.Fatal(r.stderr)
	}
	partial(t, lab, dir, "signal: terminated")
}

// Before the job's time is up, its signal stops the run at the next point.
func TestSlurmTimeLimit(t *testing.T) {
	lab := newSlurm(t)
	dir := t.TempDir()
	lab.batch(dir, "srun --overcommit -n2 "+sim(longPoints(t, 1500))+" >/dev/null\necho $? >status\n", "-n2", "-N2", "--time=1", "--signal=USR1@55")
	partial(t, lab, dir, "signal: user defined signal 1")
}

// partial checks a run that was stopped early: its status, and documents that say so and are usable.
func partial(t *testing.T, lab *slurmLab, dir, by string) {
	t.Helper()
	if status := lab.file(filepath.Join(dir, "status"), 2); status != "3\n" {
		t.Errorf("status %s, want 3", status)
	}
	files, all := rankFiles(filepath.Join(dir, "out"), 2)
	check(t, all...)
	told := ""
	for _, path := range files {
		doc := read(t, path)
		own, ok := doc.FPMRun.(map[string]any)
		if doc.Status != "partial" || !doc.Usable || len(doc.Results) == 0 || !ok {
			t.Errorf("%s: %s, usable %v, %d results", path, doc.Status, doc.Usable, len(doc.Results))
		}
		told += fmt.Sprintln(own["stopped_by"])
	}
	if !strings.Contains(told, by) {
		t.Errorf("stopped by %q, want %q", told, by)
	}
}

// A job that is put back into the queue goes on with what it had measured.
func TestSlurmRequeue(t *testing.T) {
	lab := newSlurm(t)
	dir := t.TempDir()
	job := lab.batch(dir, "echo \"start $SLURM_RESTART_COUNT\" >>starts\nsrun --overcommit -n2 "+sim(longPoints(t, 40))+" --resume out >/dev/null\necho $? >>status\n", "-n2", "-N2", "--requeue", "--open-mode=append", "-oslurm.out")
	lab.file(filepath.Join(dir, "out", "benchmark.journal"), 8192)
	if r := lab.run(dir, "", "scontrol", "requeue", job); r.status != 0 {
		t.Fatal(r.stderr)
	}
	lab.file(filepath.Join(dir, "starts"), len("start \nstart 1\n"))
	var last string
	for size := 2; !strings.HasSuffix(last, "0\n"); size = len(last) + 2 {
		last = lab.file(filepath.Join(dir, "status"), size)
	}
	files, all := rankFiles(filepath.Join(dir, "out"), 2)
	check(t, all...)
	for _, path := range files {
		doc := read(t, path)
		own, _ := json.Marshal(doc.FPMRun)
		if doc.Status != "complete" || len(doc.Results) != 40 || strings.Count(string(own), `"process":`) < 2 {
			t.Errorf("%s: %s, %d results, %.500s", path, doc.Status, len(doc.Results), own)
		}
	}
}
