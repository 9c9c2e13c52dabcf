package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// An export that a signal ends leaves nothing of the file that it did not finish, and ends by the signal.
func TestInterruptedExportLeavesNothing(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pipe := filepath.Join(dir, "run.json")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := command(t, dir, "fpmstat", "export", "-o", "samples.csv", "run.json")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				ended <- cmd.Wait()
				if f, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil { // nobody waits below for a program that is gone
					f.Close()
				}
			}()
			in, err := os.OpenFile(pipe, os.O_WRONLY, 0) // until the program reads, which it does when its own file is there
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			begun, err := filepath.Glob(filepath.Join(dir, ".samples.csv.*.tmp"))
			if err != nil || len(begun) != 1 {
				t.Fatalf("%q is begun, %v; want one file", begun, err)
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			var status *exec.ExitError
			if err := <-ended; !errors.As(err, &status) || status.Sys().(syscall.WaitStatus).Signal() != s {
				t.Errorf("ended with %v, want %v", err, s)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("left %v, %v; want the pipe only", entries, err)
			}
		})
	}
}
