package test

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// launchprog is the path of the rank program that does what its arguments say.
var launchprog = sync.OnceValues(func() (string, error) {
	path := filepath.Join(bin, "launchprog")
	if out, err := exec.Command("go", "build", "-o", path, "./launchprog").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build launchprog: %w\n%s", err, out)
	}
	return path, nil
})

// play runs fpmrun with launchprog; words before "--" are fpmrun's.
func play(t *testing.T, line string) result {
	t.Helper()
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	flags, words, _ := strings.Cut(line, " -- ")
	args := append(strings.Fields(flags), prog)
	return execute(t, t.TempDir(), "fpmrun", append(args, strings.Fields(words)...)...)
}

// Failures of ranks that talk to each other. The numbers are those of the list of known cases of other launchers.
func TestLaunchCases(t *testing.T) {
	for _, c := range []struct {
		name           string
		line           string
		status         int
		stdout, stderr []string // patterns, each of which must be there
		never          string   // pattern that must not be on stderr
	}{
		{"02 rank 0 dies, others are in a collective", "-np 4 -- join barrier 0:crash allreduce", 137, nil,
			[]string{`(?m)^allreduce: .*rank 0`, `rank 0 \(pid \d+, host .*\) was killed by signal 9 \(killed\) after .*\n$`}, ""},
		{"03 a rank's connections end long before it does", "-np 3 -- join barrier 2:drop 2:sleep=250ms 2:exit=5 spin", 5, nil,
			[]string{`because of it: rank 0, 1\n`, `rank 2 \(pid \d+, host .*\) exited with status 5 after .*\n$`}, ""},
		{"08 a rank leaves early", "-np 4 -- join barrier 3:leave 3:exit=0 barrier", 1, nil,
			[]string{`barrier: .*rank 3 .*(left|exited with status 0)`}, `rank 3 \(pid`},
		{"10 the host of the meeting leaves first", "-np 4 -- join barrier leave", 0, nil, nil, `.`},
		{"12 a call that is never answered", "-np 4 -- join barrier 0:callall=500ms barrier leave", 0,
			[]string{`rank 0: answered\nrank 1: timeout\nrank 2: answered\nrank 3: answered\n`}, nil, ""},
		{"13 a rank catches every error and goes on", "-np 3 -- join barrier 1:crash loop", 137, nil,
			[]string{`because of it: rank 0, 2\n`, `rank 1 \(pid \d+, host .*\) was killed by signal 9`}, ""},
		{"29 a stranger speaks to the job's port", "-np 2 -- join barrier 1:stranger barrier leave", 0, nil, nil, "lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := play(t, c.line)
			if r.status != c.status {
				t.Errorf("status %d, want %d", r.status, c.status)
			}
			for _, want := range c.stdout {
				if !regexp.MustCompile(want).MatchString(r.stdout) {
					t.Errorf("stdout has no %q", want)
				}
			}
			for _, want := range c.stderr {
				if !regexp.MustCompile(want).MatchString(r.stderr) {
					t.Errorf("stderr has no %q", want)
				}
			}
			if c.never != "" && regexp.MustCompile(c.never).MatchString(r.stderr) {
				t.Errorf("stderr has %q", c.never)
			}
			if t.Failed() {
				t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
			}
		})
	}
}

// Nothing of a job on one host listens to other hosts, neither the launcher nor the ranks.
func TestLaunchCase28Loopback(t *testing.T) {
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("mkfifo", filepath.Join(dir, "go")).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v %s", err, out)
	}
	job := command(t, dir, "fpmrun", "-np", "2", prog, "join", "barrier", "0:touch=up", "0:open=go", "barrier", "leave")
	job.Env = append(job.Env, "FPM_TEST_CASE=28-"+filepath.Base(dir))
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	// Opening the other end waits until rank 0 has joined and opens its own.
	gate, err := os.OpenFile(filepath.Join(dir, "go"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	listening := 0
	for _, address := range listeners(t, "FPM_TEST_CASE=28-"+filepath.Base(dir)) {
		listening++
		if !address.IP.IsLoopback() {
			t.Errorf("something of the job listens on %v", address)
		}
	}
	if listening == 0 {
		t.Error("nothing of the job listens: the test sees nothing")
	}
	gate.Close()
	if err := job.Wait(); err != nil {
		t.Errorf("the job failed: %v", err)
	}
}

// listeners are the TCP addresses on which processes listen that carry a marker in their environment.
func listeners(t *testing.T, marker string) []net.TCPAddr {
	t.Helper()
	inodes := map[string]bool{}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	marked := map[string]bool{}
	for _, link := range links {
		process := filepath.Dir(filepath.Dir(link))
		ours, known := marked[process]
		if !known {
			environ, _ := os.ReadFile(process + "/environ")
			ours = strings.Contains(string(environ), marker+"\x00")
			marked[process] = ours
		}
		if !ours {
			continue
		}
		if target, err := os.Readlink(link); err == nil {
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var found []net.TCPAddr
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(name)
		if err != nil {
			continue // a kernel without IPv6
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			// sl local_address rem_address st ... inode: state 0A is listening
			words := strings.Fields(lines.Text())
			if len(words) < 10 || words[3] != "0A" || !inodes[words[9]] {
				continue
			}
			text, port, _ := strings.Cut(words[1], ":")
			raw, err := hex.DecodeString(text)
			number, err2 := hex.DecodeString(port)
			if err != nil || err2 != nil {
				t.Fatalf("%s: %q", name, lines.Text())
			}
			for i := 0; i+4 <= len(raw); i += 4 { // words in the machine's order
				binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
			}
			found = append(found, net.TCPAddr{IP: raw, Port: int(binary.BigEndian.Uint16(number))})
		}
		file.Close()
	}
	return found
}

// A world that Slurm's variables describe is never mistaken for a smaller one: four processes find each other, and one
// alone says who is missing.
func TestLaunchCase36IncompleteWorld(t *testing.T) {
	prog, err := launchprog()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, ranks string
		status      int
		want        string
	}{
		{"four", "0 1 2 3", 0, ""},
		{"one alone", "0", 1, `1 of 4 .*missing: ?1-3|1 of 4 .*missing 1-3|missing.* 1.*3`},
	} {
		// A step number of its own keeps the two worlds apart.
		script := fmt.Sprintf(`export SLURM_JOB_ID=%d SLURM_STEP_ID=%d SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NODELIST=localhost SLURM_NNODES=1 FPM_JOIN_TIMEOUT=%s
status=0; for r in %s; do SLURM_PROCID=$r SLURM_LOCALID=$r SLURM_NODEID=0 %s join barrier leave & pids="$pids $!"; done
for p in $pids; do wait $p || status=1; done; exit $status`, os.Getpid(), len(c.ranks), map[int]string{0: "60s", 1: "1s"}[c.status], c.ranks, prog)
		var stderr strings.Builder
		cmd := exec.Command("sh", "-c", script)
		cmd.Stderr = &stderr
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != c.status {
			t.Errorf("%s: %v, want status %d\n%s", c.name, err, c.status, stderr.String())
		}
		if !regexp.MustCompile(c.want).MatchString(stderr.String()) {
			t.Errorf("%s: no %q in\n%s", c.name, c.want, stderr.String())
		}
	}
}
