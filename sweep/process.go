package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// lockDescriptor is the number at which the processes of a run inherit the folder's lock, above those that programs are told about.
const lockDescriptor = 9

// ended is how a process ended.
type ended struct {
	status int // 128 + signal when it was killed
	err    error
}

// launch starts a process and waits for it. The kernel kills it when this process dies, and it keeps the folder locked as long as it or a child of it
// lives. Signals that come meanwhile are passed on to it.
func launch(words, environ []string, output io.Writer, lock *os.File, signals <-chan os.Signal, passed func(os.Signal)) (int, error) {
	extra := make([]*os.File, lockDescriptor-2)
	extra[lockDescriptor-3] = lock
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = environ, output, output, extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, done := make(chan error, 1), make(chan ended, 1)
	go func() {
		runtime.LockOSThread() // the child is killed when the thread that made it ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- result(cmd, cmd.Wait())
		}
	}()
	if err := <-started; err != nil {
		return 0, fmt.Errorf("start %s: %w", words[0], err)
	}
	for {
		select {
		case end := <-done:
			return end.status, end.err
		case s := <-signals:
			passed(s)
			if number, ok := s.(syscall.Signal); ok {
				if err := cmd.Process.Signal(number); err != nil && !errors.Is(err, os.ErrProcessDone) {
					return 0, err
				}
				if number == syscall.SIGTSTP { // a terminal's Ctrl-Z reaches this process only
					if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
						return 0, err
					}
				}
			}
		}
	}
}

// result is how a process ended that was waited for.
func result(cmd *exec.Cmd, err error) ended {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return ended{err: err}
	}
	if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && state.Signaled() {
		return ended{status: 128 + int(state.Signal())}
	}
	return ended{status: cmd.ProcessState.ExitCode()}
}

// output runs a program to its end and is what it printed; an error has what it said.
func output(ctx context.Context, environ []string, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = environ
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		said := lastLine(exit.Stderr)
		if said == "" {
			said = lastLine(text)
		}
		return string(text), fmt.Errorf("%s (status %d)", said, exit.ExitCode())
	}
	return string(text), err
}
