package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fpmrun/fpmrun/launcher/machine"
)

// Name is argv[0] and process name of a keeper, so that killing everything called fpmrun leaves it.
const Name = "fpm-keeper"

// IsKeeper reports whether a process was started as a keeper.
func IsKeeper(args []string) bool { return len(args) == 2 && args[0] == Name }

// keeper is the parent of all ranks.
type keeper struct {
	front   socket
	folder  string   // job folder
	environ []string // that all ranks share

	mu     sync.Mutex       // guards what follows and writing to the front
	pids   map[int]int      // pid -> rank, of ranks that live
	ending []syscall.Signal // signals so far that end programs

	oom func() *oomWatch // waits until the counts before the first rank are known
}

// Main is the keeper process, by its arguments. It returns its exit status once nothing of the job is left.
func Main(args []string) int {
	if args[1] != strconv.Itoa(Version) {
		fmt.Fprintf(os.Stderr, "fpmrun: %s beside fpmrun speaks version %d, fpmrun %s: install both from one build\n", Name, Version, args[1])
		return 1
	}
	runtime.LockOSThread() // it starts the ranks: a rank's parent-death signal fires when the thread that started it ends
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "fpmrun: keeper: become subreaper:", err)
		return 1
	}
	// Another name in the process list; failing to set it costs nothing but that.
	_ = os.WriteFile("/proc/self/comm", []byte(Name), 0o600)
	// Signals of the terminal go to the front's group. What reaches the keeper all the same is dropped by a
	// handler, which ranks do not inherit; a signal that was ignored at the start stays ignored, also in them.
	dropped, children := make(chan os.Signal, 1), make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(dropped, s)
		}
	}
	signal.Notify(children, syscall.SIGCHLD)
	unix.CloseOnExec(SocketFD)
	k := &keeper{front: SocketFD, pids: map[int]int{}, oom: sync.OnceValue(func() *oomWatch { return newOOMWatch(hostFiles()) })}
	go k.oom() // beside the starts
	go k.reap(children)
	if err := k.obey(&orders{from: k.front}); err != nil {
		// The front died: nothing may survive it.
		killDescendants()
		if err := os.RemoveAll(k.folder); err != nil {
			fmt.Fprintln(os.Stderr, "fpmrun: keeper:", err)
		}
		return 1
	}
	killDescendants()
	return 0
}

// obey carries out the front's orders until it asks for the end; an error means that the front is gone.
func (k *keeper) obey(from *orders) error {
	in := bufio.NewReader(from)
	for {
		var o Order
		if err := readRecord(in, o.pass); err != nil {
			return err
		}
		switch {
		case o.Finish:
			return nil
		case o.Rank != nil:
			fds, err := from.take()
			if err != nil {
				return err
			}
			k.spawn(o.Rank, fds)
		case o.Signal != 0:
			k.signal(o.Signal)
		default:
			k.folder, k.environ = o.Folder, o.Env
		}
	}
}

// signal sends a signal to the process groups of all ranks that live. One that ends programs also reaches the ranks that
// are started later.
func (k *keeper) signal(sig syscall.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL:
		k.ending = append(k.ending, sig)
	}
	for pid := range k.pids {
		// The group is gone when the rank ended in this moment; then there is nobody to tell.
		_ = syscall.Kill(-pid, sig)
	}
}

// spawn starts a rank with its standard streams, which are closed here.
func (k *keeper) spawn(r *Rank, fds [3]int) {
	unbound := pin(r.CPUs)
	k.mu.Lock() // so that the end of the rank is not seen before its start is known
	pid, err := syscall.ForkExec(r.Path, r.Args, &syscall.ProcAttr{
		Dir: r.Dir, Env: Merge(k.environ, r.Env), Files: []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2])},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		errno := syscall.EIO
		errors.As(err, &errno)
		k.tell(Notice{Rank: r.Rank, Failed: errno})
	} else {
		k.pids[pid] = r.Rank
		k.tell(Notice{Rank: r.Rank, PID: pid, Unbound: unbound})
		for _, sig := range k.ending {
			_ = syscall.Kill(-pid, sig)
		}
	}
	k.mu.Unlock()
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// pin sets the CPUs of this thread, which the rank that it starts inherits. Without CPUs everything stays as it is.
func pin(cpus machine.CPUs) syscall.Errno {
	if len(cpus) == 0 {
		return 0
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		errno := syscall.EIO
		errors.As(err, &errno)
		return errno
	}
	return 0
}

// tell writes a notice; k.mu is held. A front that is gone is noticed where commands are read.
func (k *keeper) tell(n Notice) { _ = n.Write(k.front) }

// reap collects every child that ends or stops, whenever one does: ranks, of which the front is told, and orphans that they left. It does not wait in the
// kernel for them, since the Go runtime would look after a thread that does so every 20 us.
func (k *keeper) reap(children <-chan os.Signal) {
	for range children {
		for {
			pid, code, status, err := look()
			if err == nil && pid != 0 {
				k.collect(pid, code, status)
			} else if !errors.Is(err, unix.EINTR) {
				break // nothing has happened to any other
			}
		}
	}
}

// look is a child that has ended or stopped, without taking it, or pid 0. code is one of CLD_EXITED and so on; status is the
// exit status or the signal.
func look() (pid, code, status int, err error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT|unix.WNOHANG, nil); err != nil {
		return 0, 0, 0, err
	}
	// On 64-bit Linux the union of the structure begins at byte 16: pid, uid, status.
	at := func(offset uintptr) int { return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), offset))) }
	return at(16), int(info.Code), at(24), nil
}

// Codes of what happened to a child, as in the kernel's siginfo.h.
const cldKilled = 2

// collect takes a child that has ended, or takes note that it has stopped.
func (k *keeper) collect(pid, code, status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rank, ours := k.pids[pid]
	why := ""
	if ours && code == cldKilled && syscall.Signal(status) == syscall.SIGKILL {
		why = k.oom().killed(pid) // its cgroup can be read until somebody waits for it
	}
	var ws syscall.WaitStatus
	got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
	switch {
	case err != nil || got != pid || !ours:
	case ws.Stopped():
		k.tell(Notice{Rank: rank, Stopped: true})
	default:
		delete(k.pids, pid)
		k.tell(Notice{Rank: rank, Exited: true, Status: ws, Why: why})
	}
}
