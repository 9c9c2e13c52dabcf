package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// pods are two hosts as far as TCP and names can tell, in which processes find what a pod of an Indexed Job finds: an index, the names of a headless
// service, and a secret.
type pods struct {
	t      *testing.T
	spaces [2]string
	hosts  [2]string // files of names
	token  string
}

// podSpaces counts network namespaces, whose names are the host's.
var podSpaces atomic.Int32

const podNames = "127.0.0.1 localhost\n10.93.7.1 job-0.job\n10.93.7.2 job-1.job\n"

// newPods skips the test where network namespaces cannot be made.
func newPods(t *testing.T) *pods {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and ip (iproute2) for two network namespaces")
	}
	p := &pods{t: t, token: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(p.token, []byte("a secret of this test only"), 0o400); err != nil {
		t.Fatal(err)
	}
	ip := func(words string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			t.Skipf("no network namespaces here: ip %s: %s", words, out)
		}
	}
	for i := range p.spaces {
		p.spaces[i] = fmt.Sprintf("fpmpod%d-%d", os.Getpid(), podSpaces.Add(1))
		ip("netns add " + p.spaces[i])
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", p.spaces[i]).Run() })
		p.hosts[i] = filepath.Join(t.TempDir(), "hosts")
		p.names(i, podNames)
	}
	ip("link add name cable netns " + p.spaces[0] + " type veth peer name cable netns " + p.spaces[1])
	for i, space := range p.spaces {
		ip("-n " + space + " link set lo up")
		ip(fmt.Sprintf("-n %s addr add 10.93.7.%d/24 dev cable", space, i+1))
		ip("-n " + space + " link set cable up")
	}
	return p
}

// names sets the names that a pod can resolve.
func (p *pods) names(pod int, hosts string) {
	p.t.Helper()
	if err := os.WriteFile(p.hosts[pod], []byte(hosts), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// pod is a process of one.
type pod struct {
	*exec.Cmd
	said *lockedBuffer
}

// start starts a program in a pod, with the Job's variables and further ones: POD_VOLUME is mounted at POD_RESULTS.
func (p *pods) start(index int, dir string, environ []string, words ...string) *pod {
	p.t.Helper()
	cmd := command(p.t, dir, "fpmrun")
	path, err := exec.LookPath("ip")
	if err != nil {
		p.t.Fatal(err)
	}
	cmd.Path = path
	cmd.Args = append([]string{"ip", "netns", "exec", p.spaces[index], "unshare", "--mount", "--uts", "sh", "-c", `hostname job-$JOB_COMPLETION_INDEX; mount --bind "$0" /etc/hosts; [ -z "$POD_VOLUME" ] || mount --bind "$POD_VOLUME" "$POD_RESULTS"; exec "$@"`, p.hosts[index]}, words...)
	cmd.Env = append(append(cmd.Env, fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index), "FPM_WORLD_SIZE=2", "FPM_RENDEZVOUS=job-0.job:29400", "FPM_TOKEN_FILE="+p.token), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	one := &pod{cmd, &lockedBuffer{}}
	cmd.Stdout, cmd.Stderr = one.said, one.said
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	return one
}

// until waits until a pod has said something.
func (p *pod) until(t *testing.T, what string) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(p.said.String(), what); <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("never said %q:\n%s", what, p.said)
		}
	}
}

// lockedBuffer can be read while a process writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A pod whose rank 0 has no address yet says so, goes on trying and finds it; one that never gets it names it. Pod 0 names who has not come.
func TestLaunchReservePodComesBeforeRank0(t *testing.T) {
	p := newPods(t)
	dir := t.TempDir()
	p.names(1, "127.0.0.1 localhost\n10.93.7.2 job-1.job\n")
	one := p.start(1, dir, nil, filepath.Join(bin, "fpmbench"), "--points-file", points(t), "--output-path", "benchmark.json")
	one.until(t, "waiting for rank 0: its name does not resolve yet")
	one.until(t, "host=job-0.job")
	zero := p.start(0, dir, nil, filepath.Join(bin, "fpmbench"), "--points-file", points(t), "--output-path", "benchmark.json")
	p.names(1, podNames)
	for i, one := range []*pod{zero, one} {
		if err := one.Wait(); err != nil {
			t.Errorf("pod %d: %v\n%s", i, err, one.said)
		}
	}
	_, all := rankFiles(dir, 2)
	check(t, all...)
	p.names(1, "127.0.0.1 localhost\n")
	lost := p.start(1, dir, []string{"FPM_JOIN_TIMEOUT=300ms"}, filepath.Join(bin, "fpmbench"), "--output-path", "other.json")
	if err := lost.Wait(); err == nil || !strings.Contains(lost.said.String(), "rank 0 is missing: its name job-0.job did not resolve") {
		t.Errorf("%v\n%s", err, lost.said)
	}
	alone := p.start(0, dir, []string{"FPM_JOIN_TIMEOUT=300ms"}, filepath.Join(bin, "fpmbench"), "--output-path", "other.json")
	if err := alone.Wait(); err == nil || !strings.Contains(alone.said.String(), "1 of 2 arrived: missing 1") {
		t.Errorf("%v\n%s", err, alone.said)
	}
}

// The example's command in two pods without a shared disk: the merged document, on pod 0's volume, has both ranks' rows, and the second start finds nothing left to do.
func TestEvidenceCase21Pods(t *testing.T) {
	p := newPods(t)
	results, volumes := t.TempDir(), []string{t.TempDir(), t.TempDir()}
	bench := []string{filepath.Join(bin, "fpmbench"), "--points-file", points(t), "--require-secret", "--resume", results, "--output-path", filepath.Join(results, "benchmark.json")}
	for range 2 {
		var both []*pod
		for i, volume := range volumes {
			both = append(both, p.start(i, t.TempDir(), []string{"POD_VOLUME=" + volume, "POD_RESULTS=" + results}, bench...))
		}
		for i, one := range both {
			if err := one.Wait(); err != nil {
				t.Fatalf("pod %d: %v\n%s", i, err, one.said)
			}
		}
		merged := filepath.Join(volumes[0], "benchmark_merged.json")
		check(t, merged, filepath.Join(volumes[0], "benchmark.json"), filepath.Join(volumes[1], "benchmark_dp1.json"))
		var doc struct {
			DP struct {
				Ranks []int `json:"source_ranks"`
			} `json:"dp"`
		}
		if err := json.Unmarshal([]byte(text(t, merged)), &doc); err != nil || len(doc.DP.Ranks) != 2 {
			t.Errorf("%s: ranks %v (%v), want both", merged, doc.DP.Ranks, err)
		}
		if left, err := filepath.Glob(filepath.Join(volumes[0], "benchmark_dp1.*")); err != nil || len(left) > 0 {
			t.Errorf("the pods share a disk: %v (%v)", left, err)
		}
	}
	blocked := filepath.Join(volumes[0], "benchmark.json", "sub", "benchmark.json")
	cmd := p.start(0, t.TempDir(), []string{"FPM_WORLD_SIZE=1"}, filepath.Join(bin, "fpmbench"), "--points-file", points(t), "--output-path", blocked)
	if err := cmd.Wait(); err == nil || !strings.Contains(cmd.said.String(), blocked) || !strings.Contains(cmd.said.String(), "user 0") {
		t.Errorf("a path that cannot be written: %v\n%s", err, cmd.said)
	}
}

// The flags of the example manifests are fpmbench's, on a results folder of the test's.
func TestManifestFlags(t *testing.T) {
	for _, file := range []string{"indexed-job.yaml", "jobset.yaml"} {
		manifest := text(t, filepath.Join("..", "examples", "kubernetes", file))
		flags := []string{"--dry-run"}
		for _, m := range regexp.MustCompile(`(?m)^ +- (--\S+)$`).FindAllStringSubmatch(manifest, -1) {
			flags = append(flags, strings.ReplaceAll(m[1], "/results", t.TempDir()))
		}
		if r := succeed(t, t.TempDir(), "fpmbench", flags...); len(flags) != 5 || !strings.Contains(r.stdout, "decode points") {
			t.Errorf("%s: %q\n%s", file, flags, r.stdout)
		}
	}
}

// A pod whose manifest forgets something is told what, and a world of one is not made of it.
func TestPodManifestForgets(t *testing.T) {
	for _, c := range []struct{ environ, want string }{
		{"FPM_WORLD_SIZE=2", "does not set FPM_RENDEZVOUS (pod 0's name in the headless service, and a port), FPM_TOKEN_FILE (a Secret, mounted with mode 0600)"},
		{"FPM_TOKEN=0123456789abcdef", "does not set FPM_WORLD_SIZE (the Job's completions), FPM_RENDEZVOUS"},
	} {
		cmd := command(t, t.TempDir(), "fpmbench")
		cmd.Env = append(cmd.Env, "JOB_COMPLETION_INDEX=1", c.environ)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: %v, want status 2 and %q\n%s", c.environ, err, c.want, &said)
		}
	}
}
