package keeper

import (
	"testing"
	"testing/fstest"
)

func TestOOM(t *testing.T) {
	const v1 = "31 1 0:31 / /cg/memory rw - cgroup cgroup rw,memory\n"
	const v2 = "30 1 0:30 / /cg rw - cgroup2 cgroup2 rw\n"
	write := func(root fstest.MapFS, name, text string) { root[name] = &fstest.MapFile{Data: []byte(text)} }
	for _, c := range []struct {
		name, mounts, own, rank, events, limit, limitText, want string
	}{
		{"version 2", v2, "0::/job", "cg/job", "memory.events", "memory.max", "20971520\n", "out of memory in cgroup /cg/job, limit 20.0 MiB"},
		{"version 1", v1, "4:memory:/job", "cg/memory/job", "memory.oom_control", "memory.limit_in_bytes", "20971520\n", "out of memory in cgroup /cg/memory/job, limit 20.0 MiB"},
		{"the host's memory, no limit", v1, "4:memory:/job", "cg/memory/job", "memory.oom_control", "memory.limit_in_bytes", "9223372036854771712\n", "out of memory in cgroup /cg/memory/job"},
	} {
		root := fstest.MapFS{}
		write(root, "proc/self/mountinfo", c.mounts)
		write(root, "proc/self/cgroup", c.own+"\n")
		for _, pid := range []string{"7", "8", "9"} {
			write(root, "proc/"+pid+"/cgroup", c.own+"\n")
		}
		write(root, c.rank+"/"+c.limit, c.limitText)
		write(root, c.rank+"/"+c.events, "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
		o := newOOMWatch(root)
		if got := o.killed(7); got != "" {
			t.Errorf("%s: a plain kill -9 is called %q", c.name, got)
		}
		write(root, c.rank+"/"+c.events, "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
		if got := o.killed(8); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got := o.killed(9); got != "" {
			t.Errorf("%s: one kill explains two ends: %q", c.name, got)
		}
	}
	// An ended process of version 1 is in the root, whose count is that of other programs.
	root := fstest.MapFS{}
	write(root, "proc/self/mountinfo", v1)
	write(root, "proc/self/cgroup", "4:memory:/job\n")
	write(root, "proc/7/cgroup", "4:memory:/\n")
	write(root, "cg/memory/job/memory.oom_control", "oom_kill 0\n")
	o := newOOMWatch(root)
	write(root, "cg/memory/job/memory.oom_control", "oom_kill 1\n")
	if got, want := o.killed(7), "out of memory in cgroup /cg/memory/job"; got != want {
		t.Errorf("an ended process: %q, want %q", got, want)
	}
	if got := newOOMWatch(fstest.MapFS{}).killed(7); got != "" {
		t.Errorf("without cgroups: %q", got)
	}
}
