package keeper

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// killDescendants kills every descendant of this process, which adopts its orphans, until a look at the process table
// finds none. Each is stopped first, so that it cannot start others while the table is read.
func killDescendants() {
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == syscall.ECHILD {
		return // without a child there is no descendant either: orphans would be ours
	}
	ancestor := os.Getpid()
	// The bound is for processes that cannot be killed at the moment, such as one in an uninterruptible wait.
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		found := descendants(ancestor)
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range found {
			// Children are reaped here or by whoever else waits for them; others are adopted and reaped later.
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// descendants lists the living processes below an ancestor.
func descendants(ancestor int) []int {
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, alive := parentOf(pid); alive {
			children[parent] = append(children[parent], pid)
		}
	}
	var found []int
	for queue := []int{ancestor}; len(queue) > 0; queue = queue[1:] {
		found = append(found, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// parentOf reads a process's parent; a process that is gone or only waits to be reaped is not alive. A zombie still
// counts as a parent of nobody: its children were adopted when it ended.
func parentOf(pid int) (parent int, alive bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// The name in parentheses may itself contain spaces and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
