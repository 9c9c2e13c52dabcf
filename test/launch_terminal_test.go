package test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal: keys are written to keys and what is printed is read from it; tty is the program's side.
func terminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	fd := int(keys.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return keys, tty
}

// Ctrl-C five times in 200 ms on a terminal: one message, status 130, the terminal as it was, and nobody left, although the ranks ignore
// the signal.
func TestLaunchCase19FiveInterrupts(t *testing.T) {
	keys, tty := terminal(t)
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "ready"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Each rank's sleep stays below it in the process tree and carries a number that no other process has.
	mark := fmt.Sprintf("%d", 100000+os.Getpid())
	job := command(t, dir, "fpmrun", "-np", "4", "--kill-grace", "100s", "sh", "-c", `trap "" INT; : >ready; sleep `+mark)
	job.Stdin, job.Stdout, job.Stderr = tty, tty, tty
	job.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	ready, err := os.Open(filepath.Join(dir, "ready")) // waits for the first rank
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	if _, err := io.Copy(io.Discard, ready); err != nil { // and for those that have opened it meanwhile
		t.Fatal(err)
	}
	again := time.NewTicker(40 * time.Millisecond)
	defer again.Stop()
	for range 5 {
		if _, err := keys.Write([]byte{3}); err != nil {
			t.Fatal(err)
		}
		<-again.C
	}
	if err := job.Wait(); job.ProcessState.ExitCode() != 130 {
		t.Errorf("%v, want status 130", err)
	}
	after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal was %+v and is %+v (%v)", before, after, err)
	}
	tty.Close()
	printed, _ := io.ReadAll(keys) // ends with an error when the last of the other side is closed
	if bytes.Count(printed, []byte("fpmrun: stopped: ")) != 1 || !bytes.Contains(printed, []byte("fpmrun: stopped: interrupt")) {
		t.Errorf("printed %q, want one message", printed)
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range processes {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte("sleep\x00"+mark)) {
			t.Errorf("%s is left", name)
		}
	}
}
