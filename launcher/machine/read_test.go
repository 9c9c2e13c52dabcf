package machine

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func files(text map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, content := range text {
		root[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return root
}

func TestReadTopology(t *testing.T) {
	root := files(map[string]string{
		"sys/devices/system/node/node0/cpulist":                      "0-1,4-5\n",
		"sys/devices/system/node/node1/cpulist":                      "2-3,6-7\n",
		"sys/devices/system/node/node10/cpulist":                     "\n", // memory alone
		"sys/devices/system/cpu/cpu0/topology/thread_siblings_list":  "0,4\n",
		"sys/devices/system/cpu/cpu4/topology/thread_siblings_list":  "0,4\n",
		"sys/devices/system/cpu/cpu2/topology/thread_siblings_list":  "2\n",
		"sys/bus/pci/devices/0000:3b:00.0/numa_node":                 "1\n",
		"sys/bus/pci/devices/0000:af:00.0/numa_node":                 "-1\n",
		"sys/devices/system/node/nodes/cpulist":                      "9\n",
		"sys/devices/system/cpu/cpu99/topology/thread_siblings_list": "nonsense\n",
	})
	m := &Machine{Allowed: CPUs{0, 2, 4}}
	m.readTopology(root)
	if len(m.Nodes) != 2 || m.Nodes[1].ID != 1 || m.Nodes[1].CPUs.String() != "2-3,6-7" {
		t.Errorf("nodes %v", m.Nodes)
	}
	if len(m.Cores) != 1 || m.Cores[0].String() != "0,4" {
		t.Errorf("cores %v", m.Cores)
	}
	for pci, want := range map[string]int{"0000:3b:00.0": 1, "0000:af:00.0": -1, "0000:00:00.0": -1} {
		if got := nodeOfPCI(root, pci); got != want {
			t.Errorf("%s: node %d, want %d", pci, got, want)
		}
	}
	empty := &Machine{Allowed: CPUs{0, 1}}
	empty.readTopology(files(nil))
	if nodes := empty.nodes(); len(nodes) != 1 || nodes[0].CPUs.String() != "0-1" {
		t.Errorf("a kernel that tells nothing: nodes %v", nodes)
	}
}

// This machine, whatever it is, can be read and placed on.
func TestReadHere(t *testing.T) {
	m, err := Read(files(nil))
	if err != nil || len(m.Allowed) == 0 {
		t.Fatalf("%v, %v", m, err)
	}
	p, err := m.Place(Request{Ranks: 3, Bind: BindCore})
	if err != nil {
		t.Fatal(err)
	}
	for r, place := range p.Ranks {
		if len(place.CPUs) == 0 || len(place.CPUs.And(m.Allowed)) != len(place.CPUs) {
			t.Errorf("rank %d: CPUs %v of the allowed %v", r, place.CPUs, m.Allowed)
		}
	}
}

func TestQuota(t *testing.T) {
	const v1 = "30 1 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n31 1 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	const v2 = "30 1 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  float64
	}{
		{"version 2", map[string]string{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/pod/a\n", "sys/fs/cgroup/pod/a/cpu.max": "250000 100000\n"}, 2.5},
		{"version 2, limit above", map[string]string{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/pod/a\n", "sys/fs/cgroup/pod/a/cpu.max": "max 100000\n",
			"sys/fs/cgroup/pod/cpu.max": "400000 100000\n"}, 4},
		{"the smallest counts", map[string]string{"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/pod/a\n", "sys/fs/cgroup/pod/a/cpu.max": "800000 100000\n",
			"sys/fs/cgroup/pod/cpu.max": "400000 100000\n"}, 4},
		{"version 1", map[string]string{"proc/self/mountinfo": v1, "proc/self/cgroup": "5:cpu,cpuacct:/job\n", "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "150000\n",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "50000\n"}, 3},
		{"no limit in version 1", map[string]string{"proc/self/mountinfo": v1, "proc/self/cgroup": "5:cpu,cpuacct:/job\n", "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "50000\n"}, 0},
		{"a container that sees its own part", map[string]string{"proc/self/cgroup": "0::/system.slice/docker-1\n", "sys/fs/cgroup/cpu.max": "100000 100000\n",
			"proc/self/mountinfo": "30 1 0:30 /system.slice/docker-1 /sys/fs/cgroup ro - cgroup2 cgroup ro\n"}, 1},
		{"no cgroups", nil, 0},
		{"half a file", map[string]string{"proc/self/mountinfo": "30\n", "proc/self/cgroup": "0\n"}, 0},
	} {
		if got := Quota(files(c.files)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		m    Machine
		want int
	}{{Machine{Allowed: CPUs{0, 1, 2, 3}}, 4}, {Machine{Allowed: CPUs{0, 1, 2, 3}, Quota: 2.5}, 2}, {Machine{Allowed: CPUs{0, 1}, Quota: 0.5}, 1}, {Machine{Allowed: CPUs{0}, Quota: 9}, 1}} {
		if got := c.m.CPUCount(); got != c.want {
			t.Errorf("%v CPUs, quota %v: %d, want %d", c.m.Allowed, c.m.Quota, got, c.want)
		}
	}
}

func TestAddGPUs(t *testing.T) {
	root := files(map[string]string{"sys/bus/pci/devices/0000:3b:00.0/numa_node": "1\n"})
	m := &Machine{}
	err := m.AddGPUs([]byte(`{"v":1,"kind":"driver","driver":"550.54"}
{"v":1,"kind":"gpu","index":0,"uuid":"GPU-a","name":"NVIDIA H200","pci":"0000:3b:00.0","mig":true}
{"v":1,"kind":"mig","gpu":0,"index":0,"uuid":"MIG-a"}
{"v":1,"kind":"something new"}
`), root)
	if err != nil || len(m.GPUs) != 1 || m.GPUs[0].Node != 1 || !slices.Equal(m.GPUs[0].Slices, []string{"MIG-a"}) {
		t.Errorf("%+v, %v", m.GPUs, err)
	}
	for text, want := range map[string]string{
		"no json\n": "no JSON object", `{"v":2,"kind":"gpu"}` + "\n": "version 2", `{"v":1,"kind":"mig","gpu":3}` + "\n": "GPU 3 before",
	} {
		if err := (&Machine{}).AddGPUs([]byte(text), root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"allowed x": "want numbers and ranges", "quota 0": "above 0", "node a 0-1": "want a number", "mig 0 MIG-a": "no such GPU", "cpu 0": "want allowed", "allowed 3-1": "want numbers",
	} {
		if _, err := Parse(strings.NewReader("# fine\n" + text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v, want %q in line 2", text, err, want)
		}
	}
}

// FuzzParseCPUs: what is accepted is the same after writing and reading it again.
func FuzzParseCPUs(f *testing.F) {
	for _, seed := range []string{"", "0", "0-3,8", "8,0-3,2", "1-0", "99999999999", "0-65536"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := ParseCPUs(text)
		if err != nil {
			return
		}
		again, err := ParseCPUs(cpus.String())
		if err != nil || !slices.Equal(cpus, again) {
			t.Errorf("%q: %v, again %v (%v)", text, cpus, again, err)
		}
	})
}
