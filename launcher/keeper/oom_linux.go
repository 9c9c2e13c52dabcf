package keeper

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/fpmrun/fpmrun/launcher/machine"
)

// oomWatch tells whether a rank that SIGKILL ended was killed since its memory cgroup had no memory left: the kernel counts
// such kills in the cgroup. Both versions of cgroups are read.
type oomWatch struct {
	root fs.FS
	own  string         // cgroup's folder of this process
	seen map[string]int // cgroup's folder -> kills that are accounted for
}

// newOOMWatch remembers the count of this process's cgroup, in which ranks begin.
func newOOMWatch(root fs.FS) *oomWatch {
	o := &oomWatch{root: root, seen: map[string]int{}}
	if o.own = o.cgroup("self"); o.own != "" {
		o.seen[o.own] = o.kills(o.own)
	}
	return o
}

// cgroup is the folder of a process's memory cgroup; "" when there is none.
func (o *oomWatch) cgroup(pid string) string {
	for _, dir := range machine.Cgroups(o.root, pid, "memory") {
		return dir
	}
	return ""
}

// kills is how often the kernel killed for memory in a cgroup.
func (o *oomWatch) kills(dir string) int {
	for _, name := range []string{"memory.events", "memory.oom_control"} { // version 2 and 1
		text, err := fs.ReadFile(o.root, path.Join(dir, name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key == "oom_kill" {
				n, err := strconv.Atoi(value)
				if err == nil {
					return n
				}
			}
		}
	}
	return 0
}

// killed looks at a process that SIGKILL ended and that nobody has waited for yet. It returns what to say when the kernel
// killed it for memory, else "". Under version 1 an ended process is in no cgroup any more; then it counts as one of this
// process's cgroup, where it began.
func (o *oomWatch) killed(pid int) string {
	for _, dir := range []string{o.cgroup(strconv.Itoa(pid)), o.own} {
		if dir != "" && o.kills(dir) > o.seen[dir] {
			o.seen[dir]++
			return fmt.Sprintf("out of memory in cgroup /%s%s", dir, o.limit(dir))
		}
	}
	return ""
}

// limit is a cgroup's limit in words; "" when there is none.
func (o *oomWatch) limit(dir string) string {
	for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
		text, err := fs.ReadFile(o.root, path.Join(dir, name))
		if err != nil {
			continue
		}
		// Version 1 writes no limit as a number near 2^63.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n < 1<<60 {
			return fmt.Sprintf(", limit %.1f MiB", float64(n)/(1<<20))
		}
	}
	return ""
}

// hostFiles is the root of the file system.
func hostFiles() fs.FS { return os.DirFS("/") }
