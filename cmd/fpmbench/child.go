package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// child is this rank's process of one launch. It is the leader of a process group of its own, so that a signal for the group of its parent, which passes
// signals on, does not come twice.
type child struct {
	mu    sync.Mutex
	pid   int // 0 before it has started and after it has ended
	asked os.Signal
	over  bool // stopped for good: no further signal starts or ends anything
}

// childGrace is how long a process may take to end that was asked to because another rank's failed.
const childGrace = 10 * time.Second

// run starts the program again with its arguments and another environment, waits for its end and returns its exit status as a shell has it: 128 and the signal
// when it was killed.
func (c *child) run(p *program, environ []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, p.args[1:]...)
	cmd.Args[0], cmd.Env, cmd.Stdout, cmd.Stderr = p.args[0], environ, p.stdout, p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the parent-death signal is for the thread that starts the process, so it has to last
		defer runtime.UnlockOSThread()
		done <- c.start(cmd)
	}()
	err = <-done
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exited.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return exited.ExitCode(), nil
	}
	return 0, err
}

// start runs the process to its end.
func (c *child) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	if err := cmd.Start(); err != nil {
		c.mu.Unlock()
		return err
	}
	c.pid = cmd.Process.Pid
	if c.asked != nil { // between two launches
		c.send(c.asked)
	}
	c.mu.Unlock()
	err := cmd.Wait()
	c.mu.Lock()
	c.pid = 0
	c.mu.Unlock()
	return err
}

// send signals the process's group, if there is one. The caller holds the lock.
func (c *child) send(sig os.Signal) {
	if number, ok := sig.(syscall.Signal); ok && c.pid != 0 {
		_ = syscall.Kill(-c.pid, number) // it may have ended in this moment
	}
}

// stop ends the process because another rank's failed: politely, then not.
func (c *child) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.send(syscall.SIGTERM)
	pid := c.pid
	time.AfterFunc(childGrace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pid == pid {
			c.send(syscall.SIGKILL)
		}
	})
}

// stopped says which signal asked this process to stop; nil when none did.
func (c *child) stopped() os.Signal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// listen passes signals on until the returned function is called. Those that stop a run also stop the repetition.
func (c *child) listen() (end func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGTSTP, syscall.SIGCONT)
	done := make(chan struct{})
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				c.signal(sig)
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(done)
		loop.Wait()
	}
}

func (c *child) signal(sig os.Signal) {
	c.mu.Lock()
	c.send(sig)
	if c.asked == nil && sig != syscall.SIGTSTP && sig != syscall.SIGCONT {
		c.asked = sig
	}
	c.mu.Unlock()
	if sig == syscall.SIGTSTP {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // what the signal does to who does not catch it
	}
}
