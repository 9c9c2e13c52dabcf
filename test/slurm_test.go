package test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// In a real allocation of two nodes fpmrun runs on both, and what it promises on one node holds.
func TestSlurm(t *testing.T) {
	lab := newSlurm(t)
	for _, c := range []struct {
		name           string
		tasks          int
		script         string
		status         int
		stdout, stderr []string // patterns, each of which must be there
		never          string   // pattern that must not be on stderr
	}{
		{"ranks and hosts", 5, `fpmrun --tag-output sh -c 'echo $(hostname) $FPM_RANK $FPM_LOCAL_RANK of $FPM_WORLD_SIZE'`, 0,
			[]string{`(?m)^\[0\]: n1 0 0 of 5$`, `(?m)^\[2\]: n1 2 2 of 5$`, `(?m)^\[4\]: n2 4 1 of 5$`}, nil, ""},
		{"the ranks meet", 4, `fpmrun launchprog join barrier allreduce leave`, 0, nil, nil, ""},
		{"first cause", 4, `fpmrun sh -c '[ $FPM_RANK = 3 ] && exit 7; exec sleep 100'`, 7, nil,
			[]string{`rank 3 \(pid \d+, host n2\) exited with status 7 after .*\n$`, `because of it: rank 0, 1, 2\n`}, ""},
		{"standard input", 4, `seq 1 50000 | fpmrun --stdin 3 sh -c 'cat | wc -l'`, 0, []string{`(?m)^50000$`}, nil, ""},
		{"a site that ends tasks after the first", 2, `fpmrun sh -c '[ $FPM_RANK = 0 ] || sleep 2.5; echo $FPM_RANK is done'`, 0, []string{"0 is done", "1 is done"}, nil, ""},
		{"a failure that is to be waited for", 2, `fpmrun --on-failure wait sh -c '[ $FPM_RANK = 0 ] && exit 3; sleep 1; echo done'`, 3, []string{"done"}, nil, ""},
		{"timeout", 2, `fpmrun --timeout 1 sleep 100`, 124, nil, []string{`rank 1 \(pid \d+, host n2\) process state`, `stopped: timeout of 1s\n$`}, ""},
		{"no program", 2, `fpmrun no-such-program`, 127, nil, []string{`node [01] \(host n[12]\): no-such-program: no such program in PATH`}, ""},
		{"scancel", 2, `fpmrun sh -c 'trap "echo rank got TERM; exit 0" TERM; : >up$FPM_RANK; while :; do sleep 0.02; done' & job=$!
			while [ ! -e up0 ] || [ ! -e up1 ]; do sleep 0.01; done; scancel -s TERM $SLURM_JOB_ID.0; wait $job`, 143, []string{"rank got TERM\n(.*\n)*rank got TERM"}, nil, "was lost"},
		{"fpmrun is killed", 4, `fpmrun sh -c 'setsid sleep 100 & : >up$FPM_RANK; wait' & job=$!
			while [ ! -e up0 ] || [ ! -e up3 ]; do sleep 0.01; done; kill -9 $job; wait $job`, 137, nil, nil, ""},
		{"a second job in the allocation", 2, `fpmrun sh -c 'exit 4'; fpmrun echo again`, 0, []string{"again\nagain"}, nil, ""},
		{"plan", 4, `fpmrun --dry-run true`, 0, []string{`^srun --nodes=2 --ntasks=2 --ntasks-per-node=1 .* agent --nnodes 2 --head`, `FPM_NODE_RANK=1`}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab.t = t
			r := lab.job(c.tasks, c.script)
			if r.status != c.status {
				t.Errorf("status %d, want %d", r.status, c.status)
			}
			for _, want := range c.stdout {
				if !regexp.MustCompile(want).MatchString(r.stdout) {
					t.Errorf("stdout has no %q", want)
				}
			}
			for _, want := range c.stderr {
				if !regexp.MustCompile(want).MatchString(r.stderr) {
					t.Errorf("stderr has no %q", want)
				}
			}
			if c.never != "" && regexp.MustCompile(c.never).MatchString(r.stderr) {
				t.Errorf("stderr has %q", c.never)
			}
			lab.nothingLeft()
			if t.Failed() {
				t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
			}
		})
	}
}

// nothingLeft checks that no process of a job lives.
func (l *slurmLab) nothingLeft() {
	l.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		var left []string
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range files {
			if environ, err := os.ReadFile(file); err == nil && bytes.Contains(environ, []byte("FPM_TEST_LAB="+l.dir+"\x00")) {
				cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
				left = append(left, strings.ReplaceAll(string(cmdline), "\x00", " "))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("left: %q", left)
		}
	}
}
