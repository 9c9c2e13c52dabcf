package test

import (
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// Every rank that waits names the one that does not come, and that it is stopped.
func TestLaunchReserveStraggler(t *testing.T) {
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, t.TempDir(), "fpmrun", "-np", "8", "--on-failure", "wait", prog, "join", "barrier", "6:stop", "6:sleep=1h", "barrier=1s")
	said := &lockedBuffer{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`barrier=1s: .*missing: rank 6 \(stopped\)`)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(60 * time.Second); len(named.FindAllString(said.String(), -1)) < 7; <-again.C {
		if time.Now().After(deadline) {
			t.Errorf("not all of the seven others name rank 6:\n%s", said)
			break
		}
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
}

// Root needs no flag, and neither does the first process of a container.
func TestLaunchReserveRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	succeed(t, t.TempDir(), "fpmrun", "-np", "2", prog, "join", "barrier", "leave")
	cmd := command(t, t.TempDir(), "fpmrun")
	if cmd.Path, err = exec.LookPath("unshare"); err != nil {
		t.Skip("needs unshare")
	}
	cmd.Args = []string{"unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", `[ $$ = 1 ] && exec "$0" -np 2 "$@"`, bin + "/fpmrun", prog, "join", "barrier", "leave"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as the first process: %v\n%s", err, out)
	}
}
