package launcher

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fpmrun/fpmrun/rank/env"
)

// step is the Slurm step that starts one agent on each node. srun runs in a session of its own, so that the terminal's
// signals do not reach it: on most of them it kills its tasks without a warning. It dies with this process.
type step struct {
	over chan error // gets one value when srun has ended
	cmd  *exec.Cmd
}

// StepCommand is the srun command that starts the agents of a job; heads are addresses of its head.
func StepCommand(o *Options, heads []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("launcher: own executable: %w", err)
	}
	n := strconv.Itoa(o.Nodes.Nodes)
	return []string{"srun", "--nodes=" + n, "--ntasks=" + n, "--ntasks-per-node=1", "--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0",
		"--mpi=none", "--export=ALL", "--input=all", self, "agent", "--nnodes", n, "--head", strings.Join(heads, ",")}, nil
}

// startStep starts the agents. They get the token on their standard input.
func startStep(o *Options, head net.Addr, stderr io.Writer) (*step, error) {
	_, port, err := net.SplitHostPort(head.String())
	if err != nil {
		return nil, err
	}
	heads, err := Heads(o.iface(), port)
	if err != nil {
		return nil, err
	}
	words, err := StepCommand(o, heads)
	if err != nil {
		return nil, err
	}
	path, err := lookUp(words[0], lookup(o.Environ, "PATH"), "", "")
	if err != nil {
		return nil, fmt.Errorf("--via srun: %w; --via local runs all ranks on this node", err)
	}
	s := &step{over: make(chan error, 1)}
	s.cmd = &exec.Cmd{Path: path, Args: words, Env: o.Environ, Stdin: strings.NewReader(string(o.Nodes.Token) + "\n"), Stdout: stderr, Stderr: stderr, WaitDelay: time.Second,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
	started := make(chan error)
	go func() {
		// The parent-death signal is sent when the thread ends that started the process.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			if err = s.cmd.Wait(); err == nil {
				err = errors.New("exit status 0")
			}
			s.over <- err
		}
		close(s.over)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("launcher: start srun: %w", err)
	}
	return s, nil
}

// ended gets a value when srun has ended; nil without a step.
func (s *step) ended() <-chan error {
	if s == nil {
		return nil
	}
	return s.over
}

// stepGrace is how long srun may take to end after its agents.
const stepGrace = 10 * time.Second

// wait waits for srun, whose agents have been told to end.
func (s *step) wait() {
	if s == nil {
		return
	}
	limit := time.AfterFunc(stepGrace, func() { _ = s.cmd.Process.Kill() }) // nobody is left who could be harmed
	for range s.over {
	}
	limit.Stop()
}

// bridges are interfaces that other hosts cannot reach.
var bridges = []string{"docker", "virbr", "veth", "br-"}

// Heads are the addresses at which other hosts may reach this one, with a port: that of an interface, or network in CIDR
// form, where one is given; else all, those of the loopback interface last.
func Heads(iface, port string) ([]string, error) {
	if iface != "" {
		host, err := env.AddressOn(iface)
		if err != nil {
			return nil, fmt.Errorf("--iface %s: %w", iface, err)
		}
		return []string{net.JoinHostPort(host, port)}, nil
	}
	found, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("launcher: own addresses: %w", err)
	}
	var groups [3][]string // IPv4, IPv6, loopback
	for _, i := range found {
		own, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 || slices.ContainsFunc(bridges, func(prefix string) bool { return strings.HasPrefix(i.Name, prefix) }) {
			continue
		}
		for _, a := range own {
			n, ok := a.(*net.IPNet)
			if !ok || n.IP.IsLinkLocalUnicast() {
				continue
			}
			group := 1
			if n.IP.IsLoopback() {
				group = 2
			} else if n.IP.To4() != nil {
				group = 0
			}
			groups[group] = append(groups[group], net.JoinHostPort(n.IP.String(), port))
		}
	}
	return slices.Concat(groups[0], groups[1], groups[2]), nil
}
