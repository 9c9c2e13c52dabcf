package launcher

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A group is counted from the kernel's lines, whatever the names of its processes are.
func TestProcessAdd(t *testing.T) {
	p := process{letter: '?'}
	p.add([]byte("50 (a (b) R) S 1 50 50 0 -1 0 1 2 3 4 150 25 9 9 20 0 3 0 100"), 50, true)
	p.add([]byte("51 (sh) R 50 50 50 0 -1 0 1 2 3 4 100 0 9 9 20 0 1 0 100"), 50, false)
	p.add([]byte("52 (other) R 50 52 50 0 -1 0 1 2 3 4 100 0 9 9 20 0 1 0 100"), 50, false)
	p.add([]byte("53 (short) R 50 50"), 50, false)
	want := process{letter: 'S', threads: 4, processes: 2, cpu: 2750 * time.Millisecond}
	if p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	p.waits = "do_wait"
	for before, want := range map[time.Duration]string{
		-1:          "process state S in do_wait, 2 processes, 4 threads, 2.75s of CPU time since its start",
		time.Second: "process state S in do_wait, 2 processes, 4 threads, 1.75s of CPU time since the last report",
	} {
		if got := p.describe(before); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestInspect(t *testing.T) {
	stopped := exec.Command("sleep", "100")
	stopped.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := stopped.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stopped.Process.Kill()
		_ = stopped.Wait()
	}()
	if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(stopped.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("%v, %v", ws, err)
	}
	if p := inspect(stopped.Process.Pid); p.letter != 'T' || p.threads != 1 || p.processes != 1 {
		t.Errorf("a stopped process: %+v", p)
	}
	if p := inspect(os.Getpid()); p.letter != 'R' && p.letter != 'S' && p.letter != '?' {
		t.Errorf("this process: %+v", p)
	}
	if p := inspect(1 << 30); p.letter != '?' || !strings.HasPrefix(p.describe(-1), "process state ?, 0 threads") {
		t.Errorf("a process that is gone: %+v", p)
	}
}
