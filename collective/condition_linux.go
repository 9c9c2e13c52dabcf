package collective

import (
	"bytes"
	"fmt"
	"os"
)

// condition says what the kernel knows of a silent rank of this host: stopped, a zombie, stuck in the kernel, or gone; "" when that is nothing
// special, or the rank is on another host.
func (w *world) condition(peer int) string {
	if w.table[peer].Host != w.table[w.rank].Host {
		return ""
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.table[peer].PID))
	if os.IsNotExist(err) {
		return "its process is gone"
	}
	// The state follows the name, which is in parentheses and may hold some itself. See proc_pid_stat(5).
	if i := bytes.LastIndexByte(b, ')'); i >= 0 && len(b) > i+2 {
		switch b[i+2] {
		case 'T', 't':
			return "stopped"
		case 'Z':
			return "a zombie"
		case 'D':
			return "in uninterruptible sleep"
		}
	}
	return ""
}
