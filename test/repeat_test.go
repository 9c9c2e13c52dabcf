package test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
)

// processes lists those whose environment holds all of the variables.
func processes(t *testing.T, vars ...string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
next:
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, or is another user's
		}
		for _, v := range vars {
			if !strings.Contains("\x00"+string(text), "\x00"+v+"\x00") {
				continue next
			}
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// One process of the second of three launches ends badly, or a signal comes: the repetition ends, with the cause and the status of it, without leaving a
// process, and the first launch is kept.
func TestRepetitionEndsWithALaunch(t *testing.T) {
	for _, c := range []struct {
		name   string
		vars   []string // of the process that is signalled
		signal syscall.Signal
		status int
		want   string
	}{
		{"a killed rank of the launch", []string{"FPM_RANK=1", "FPM_REPEAT_LAUNCH=2"}, syscall.SIGKILL, 137, "launch 2: rank 1 ended with status 137"},
		{"SIGTERM to that process", []string{"FPM_RANK=1", "FPM_REPEAT_LAUNCH=2"}, syscall.SIGTERM, 0, "number=3 of=3"},
		{"SIGTERM to the launcher", nil, syscall.SIGTERM, 143, "stopped by signal: terminated, in launch 2 of 3"},
		{"a killed launcher", nil, syscall.SIGKILL, 137, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writePoints(t, filepath.Join(dir, "points.json"), 4000)
			mark := fmt.Sprintf("FPM_TEST_MARK=%d-%s", os.Getpid(), strings.ReplaceAll(c.name, " ", "-"))
			cmd := command(t, dir, "fpmrun", "-np", "2", "fpmbench", "--repeat", "3", "--mode", "decode", "--points-file", "points.json", "--timeout", "3", "--output-path", "out/benchmark.json")
			cmd.Env = append(cmd.Env, mark)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			second, sent := false, false
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				text.WriteString(lines.Text() + "\n")
				second = second || strings.Contains(lines.Text(), "number=2 of=3")
				if sent || !second || !strings.Contains(lines.Text(), " points, ") {
					continue
				}
				sent = true
				pids := []int{cmd.Process.Pid}
				if c.vars != nil {
					pids = processes(t, append(c.vars, mark)...)
				}
				if len(pids) != 1 {
					t.Fatalf("processes %v, want one", pids)
				}
				if err := syscall.Kill(pids[0], c.signal); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait() // the status says how it ended
			status := cmd.ProcessState.ExitCode()
			if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && state.Signaled() {
				status = 128 + int(state.Signal())
			}
			if c.status == 0 { // a launch that was stopped early is partial, as the others are by their time limit
				c.status = 3
			}
			if status != c.status || !strings.Contains(text.String(), c.want) {
				t.Errorf("status %d, want %d and %q\n%s", status, c.status, c.want, text.String())
			}
			for deadline := time.Now().Add(10 * time.Second); len(processes(t, mark)) > 0; {
				if time.Now().After(deadline) {
					t.Fatalf("processes are left: %v", processes(t, mark))
				}
			}
			files, _ := rankFiles(filepath.Join(dir, "out", "launch-1"), 2)
			check(t, files...)
			if j, err := artifact.ReadJournal(artifact.JournalPath(filepath.Join(dir, "out", "launch-2", "benchmark.json"), 1)); err != nil || len(j.Points) == 0 {
				t.Errorf("the second launch kept %d points (%v)", len(j.Points), err)
			}
		})
	}
}
