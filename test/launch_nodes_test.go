package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cable is two network namespaces with a cable between them: two hosts as far as the network can tell.
type cable struct {
	t     *testing.T
	names [2]string
	dir   string // of the job, with its token
	host  string // address of the first side
}

// newCable skips the test where namespaces or cables cannot be made. addresses are those of the sides, with their prefix.
func newCable(t *testing.T, addresses [2]string) *cable {
	t.Helper()
	c := &cable{t: t, dir: t.TempDir()}
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and ip (iproute2) for two network namespaces")
	}
	for i := range c.names {
		c.names[i] = fmt.Sprintf("fpmt%d%c", os.Getpid(), 'a'+i)
		if out, err := exec.Command("ip", "netns", "add", c.names[i]).CombinedOutput(); err != nil {
			t.Skipf("no network namespaces here: %s", out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", c.names[i]).Run() })
	}
	if out, err := exec.Command("ip", "link", "add", "name", "cable", "netns", c.names[0], "type", "veth", "peer", "name", "cable", "netns", c.names[1]).CombinedOutput(); err != nil {
		t.Skipf("no veth pairs here: %s", out)
	}
	for side, address := range addresses {
		c.run(side, "ip link set lo up")
		words := "ip addr add " + address + " dev cable"
		if strings.Contains(address, ":") {
			words += " nodad"
		}
		c.run(side, words)
		c.run(side, "ip link set cable up")
	}
	c.host, _, _ = strings.Cut(addresses[0], "/")
	if err := os.WriteFile(filepath.Join(c.dir, "token"), []byte("a secret of both sides"), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a command on one side.
func (c *cable) run(side int, command string) {
	c.t.Helper()
	words := append([]string{"netns", "exec", c.names[side]}, strings.Fields(command)...)
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// node is fpmrun on one side.
type node struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// start starts fpmrun on a side, which is the node of that number.
func (c *cable) start(side int, words ...string) *node {
	c.t.Helper()
	rendezvous := c.host + ":7100"
	if strings.Contains(c.host, ":") {
		rendezvous = "[" + c.host + "]:7100"
	}
	args := append([]string{"netns", "exec", c.names[side], filepath.Join(bin, "fpmrun"), "--nnodes", "2", "--node-rank", fmt.Sprint(side),
		"--rendezvous", rendezvous, "--token-file", "token"}, words...)
	n := &node{cmd: command(c.t, c.dir, "fpmrun")}
	ip, err := exec.LookPath("ip")
	if err != nil {
		c.t.Fatal(err)
	}
	n.cmd.Path, n.cmd.Args = ip, append([]string{"ip"}, args...)
	n.cmd.Env = append(n.cmd.Env, "FPM_TEST_CABLE="+c.names[0], "TMPDIR="+c.dir)
	n.cmd.Stdout, n.cmd.Stderr = &n.stdout, &n.stderr
	if err := n.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// wait waits for the node's end and checks its exit status.
func (c *cable) wait(n *node, status int) {
	c.t.Helper()
	if err := n.cmd.Wait(); n.cmd.ProcessState.ExitCode() != status {
		c.t.Errorf("%v: %v, want status %d\nstdout:\n%s\nstderr:\n%s", n.cmd.Args[4:], err, status, n.stdout.String(), n.stderr.String())
	}
}

// up waits until the ranks have written their files.
func (c *cable) up(ranks int) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		if found, err := filepath.Glob(filepath.Join(c.dir, "up*")); err == nil && len(found) == ranks {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal("the ranks do not come up")
		}
	}
}

// nothingLeft checks that no process of the job lives, and that no folder of it is there.
func (c *cable) nothingLeft() {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		left := 0
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range files {
			if environ, err := os.ReadFile(file); err == nil && bytes.Contains(environ, []byte("FPM_TEST_CABLE="+c.names[0]+"\x00")) {
				left++
			}
		}
		folders, _ := filepath.Glob(filepath.Join(c.dir, "fpmrun-*"))
		if left == 0 && len(folders) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%d processes and the folders %v are left", left, folders)
		}
	}
}

var (
	sides4 = [2]string{"192.0.2.1/24", "192.0.2.2/24"}
	sides6 = [2]string{"2001:db8::1/64", "2001:db8::2/64"}
)

// Two hosts: the ranks of both find each other, over IPv4 and where there is no other address than IPv6 ones, and what they print arrives
// whole.
func TestTwoHosts(t *testing.T) {
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	for name, sides := range map[string][2]string{"IPv4": sides4, "IPv6": sides6} {
		t.Run(name, func(t *testing.T) {
			c := newCable(t, sides)
			words := []string{"-np", "4", "--stdin", "none", prog, "join", "barrier", "allreduce", "leave"}
			agent := c.start(1, words...)
			c.wait(c.start(0, words...), 0)
			c.wait(agent, 0)
			words = []string{"-np", "2", "--iface", "cable", "--tag-output", "sh", "-c", "seq 1 200000; echo $FPM_RENDEZVOUS >meet$FPM_RANK"}
			agent = c.start(1, words...)
			head := c.start(0, words...)
			c.wait(head, 0)
			c.wait(agent, 0)
			if got := strings.Count(head.stdout.String(), "\n"); got != 400000 {
				t.Errorf("%d lines, want 400000", got)
			}
			for rank := range 2 {
				text, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("meet%d", rank)))
				if err != nil || !strings.Contains(string(text), c.host) {
					t.Errorf("rank %d meets at %s (%v), want %s", rank, text, err, c.host)
				}
			}
			c.nothingLeft()
		})
	}
}

// The cable is cut, or one end loses its address so that packets vanish without a word, while the ranks are in a collective operation: the node is
// named as the cause, not a rank that could not go on, and each side stops its ranks.
func TestTwoHostsCableCut(t *testing.T) {
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range []string{"ip link set cable down", "ip addr del " + sides4[1] + " dev cable"} {
		t.Run(failure, func(t *testing.T) {
			c := newCable(t, sides4)
			words := []string{"-np", "2", "--stdin", "none", prog, "join", "barrier", "0:touch=up0", "1:touch=up1", "spin"}
			agent, head := c.start(1, words...), c.start(0, words...)
			c.up(2)
			c.run(1, failure)
			c.wait(head, 1)
			c.wait(agent, 1)
			if last := lastLine(head.stderr.String()); !regexp.MustCompile(`^fpmrun: node 1 \(host .*\) was lost: nothing came from it for 4s; its rank 1 with it$`).MatchString(last) {
				t.Errorf("the cause is %q, want node 1", last)
			}
			if last := lastLine(agent.stderr.String()); last != "fpmrun: the head of the job was lost: nothing came from it for 4s" {
				t.Errorf("the agent says %q, want that the head was lost", last)
			}
			c.nothingLeft()
		})
	}
}

// On a slow network that output fills, the end of a rank is told before the output that waits, and with the rank's last line.
func TestTwoHostsSlowCable(t *testing.T) {
	c := newCable(t, sides4)
	for side := range 2 {
		if out, err := exec.Command("ip", "netns", "exec", c.names[side], "tc", "qdisc", "add", "dev", "cable", "root", "tbf", "rate", "4mbit", "burst", "16kb", "latency", "400ms").CombinedOutput(); err != nil {
			t.Skipf("no slow cable here: %s", out)
		}
	}
	// Rank 2 is alone on the other side, and fails while what it printed is on its way: 4 MB take 8 s.
	words := []string{"-np", "3", "--stdin", "none", "--kill-grace", "0.1", "sh", "-c", `case $FPM_RANK in
		2) head -c 4000000 /dev/zero | tr '\0' x & until [ -e full ]; do sleep 0.05; done; echo no luck >&2; exit 7 ;;
		*) : >up$FPM_RANK; exec sleep 100 ;; esac`}
	agent, head := c.start(1, words...), c.start(0, words...)
	c.up(2)
	if err := os.WriteFile(filepath.Join(c.dir, "full"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.wait(head, 7)
	c.wait(agent, 7)
	if last := lastLine(head.stderr.String()); !strings.HasSuffix(last, ": no luck") || !strings.Contains(last, "rank 2 (pid") {
		t.Errorf("the cause is %q, want rank 2 with its last line", last)
	}
	if n := head.stdout.Len(); n >= 4000000 {
		t.Errorf("all %d bytes of output came before the end of the rank was known", n)
	}
	c.nothingLeft()
}

// kill -9 of either fpmrun: the other side ends, and nothing is left anywhere.
func TestTwoHostsKilled(t *testing.T) {
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	for _, victim := range []int{0, 1} {
		t.Run(fmt.Sprintf("node %d", victim), func(t *testing.T) {
			c := newCable(t, sides4)
			words := []string{"-np", "4", "--stdin", "none", prog, "join", "barrier", "0:touch=up0", "3:touch=up3", "spin"}
			nodes := [2]*node{1: c.start(1, words...)}
			nodes[0] = c.start(0, words...)
			c.up(2)
			if err := nodes[victim].cmd.Process.Kill(); err != nil { // ip has become fpmrun
				t.Fatal(err)
			}
			c.wait(nodes[victim], -1)
			c.wait(nodes[1-victim], 1)
			want := "fpmrun: the head of the job was lost: its fpmrun is gone"
			if victim == 1 {
				want = `fpmrun: node 1 \(host .*\) was lost: its fpmrun is gone; its ranks 2 to 3 with it`
			}
			if last := lastLine(nodes[1-victim].stderr.String()); !regexp.MustCompile("^" + want + "$").MatchString(last) {
				t.Errorf("the other side says %q, want %q", last, want)
			}
			c.nothingLeft()
		})
	}
}

// What node 0 tells of ranks is the same for those of other nodes: what they wait for, that they have joined, whom they
// blame.
func TestTwoHostsStates(t *testing.T) {
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	c := newCable(t, sides4)
	if err := syscall.Mkfifo(filepath.Join(c.dir, "hold"), 0o600); err != nil {
		t.Fatal(err)
	}
	words := []string{"-np", "4", "--stdin", "none", "--events", "job.jsonl", "--timeout", "2", prog, "join", "barrier", "0:open=hold", "barrier", "leave"}
	agent, head := c.start(1, append([]string{"--events", "none.jsonl"}, words...)...), c.start(0, words...)
	c.wait(head, 124)
	c.wait(agent, 124)
	said := head.stderr.String()
	for _, want := range []string{`rank 0 \(pid \d+, host .*\) process state .*, joined, in no collective operation`, `rank 2 \(pid \d+, host .*\) process state .*, in barrier #2 for .*, waiting for rank 0`} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("the report has no %q:\n%s", want, said)
		}
	}
	events, err := os.ReadFile(filepath.Join(c.dir, "job.jsonl"))
	if got := bytes.Count(events, []byte(`"event":"joined"`)); got != 4 || err != nil {
		t.Errorf("%d ranks have joined by the events (%v), want 4", got, err)
	}
	// Rank 3's connections end long before it does, so that others end first; they say whom they blame.
	words = []string{"-np", "4", "--stdin", "none", prog, "join", "barrier", "3:drop", "3:sleep=250ms", "3:exit=5", "spin"}
	agent, head = c.start(1, words...), c.start(0, words...)
	c.wait(head, 5)
	c.wait(agent, 5)
	if last := lastLine(head.stderr.String()); !strings.Contains(last, "rank 3 (pid") {
		t.Errorf("the cause is %q, want rank 3", last)
	}
	c.nothingLeft()
}

// lastLine is the last line of a text.
func lastLine(text string) string {
	text = strings.TrimSuffix(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}
