package test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slurmLab is a real Slurm of two nodes on this host: a controller and two slurmd, each of these in a name space of host names of its own, so that
// its tasks see the names n1 and n2. Sites' settings that would end tasks early are on.
type slurmLab struct {
	t   *testing.T
	dir string
}

const slurmConf = `ClusterName=lab
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[3]s/munge.socket,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=%[3]s/state
SlurmdSpoolDir=%[3]s/%%n
SlurmctldPidFile=%[3]s/slurmctld.pid
SlurmdPidFile=%[3]s/slurmd.%%n.pid
SlurmctldLogFile=%[3]s/slurmctld.log
SlurmdLogFile=%[3]s/slurmd.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
WaitTime=1
KillOnBadExit=1
LaunchParameters=use_interactive_step
InteractiveStepOptions="--interactive --preserve-env --input=0 /bin/sh"
JobRequeue=1
NodeName=n1 NodeHostname=n1 NodeAddr=127.0.0.1 Port=%[4]d CPUs=2
NodeName=n2 NodeHostname=n2 NodeAddr=127.0.0.2 Port=%[5]d CPUs=2
PartitionName=lab Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:16
`

// newSlurm starts the lab; the test is skipped where that cannot be.
func newSlurm(t *testing.T) *slurmLab {
	t.Helper()
	for _, program := range []string{"munged", "slurmctld", "slurmd", "srun", "salloc", "sinfo", "unshare"} {
		if _, err := exec.LookPath(program); err != nil || os.Getuid() != 0 {
			t.Skipf("needs root and %s; on Debian apt-get install slurm-wlm slurmd slurmctld munge", program)
		}
	}
	dir, err := os.MkdirTemp("", "fpmslurm") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(bin, 0o755)); err != nil { // other users try to get in
		t.Fatal(err)
	}
	l := &slurmLab{t, dir}
	t.Cleanup(l.endSteps) // after the daemons' end
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	short, _, _ := strings.Cut(host, ".")
	ports := freePorts(t, 3)
	l.write("slurm.conf", fmt.Sprintf(slurmConf, short, ports[0], dir, ports[1], ports[2]), 0o644)
	l.write("key", strings.Repeat("a key of this test only; ", 8), 0o600)
	hosts, _ := os.ReadFile("/etc/hosts")
	l.write("hosts", string(hosts)+"\n127.0.0.1 n1\n127.0.0.2 n2\n", 0o644)
	for _, folder := range []string{"state", "n1", "n2"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l.daemon("munged", "-F", "--force", "--socket="+dir+"/munge.socket", "--key-file="+dir+"/key", "--pid-file="+dir+"/munged.pid", "--log-file="+dir+"/munged.log", "--seed-file="+dir+"/seed")
	l.until("munge listens", func() bool { _, err := os.Stat(dir + "/munge.socket"); return err == nil })
	l.daemon("slurmctld", "-D", "-c")
	for _, name := range []string{"n1", "n2"} {
		l.daemon("unshare", "--uts", "--mount", "sh", "-c", `hostname $0; mount --bind "$1" /etc/hosts; exec slurmd -D -N $0`, name, dir+"/hosts")
	}
	l.until("both nodes are idle", func() bool {
		sinfo := exec.Command("sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
		sinfo.Env = l.environ()
		out, err := sinfo.Output()
		return err == nil && strings.Contains(string(out), "n1") && strings.Contains(string(out), "n2")
	})
	return l
}

func (l *slurmLab) environ() []string {
	return append(os.Environ(), "SLURM_CONF="+l.dir+"/slurm.conf", "FPM_MUNGE_SOCKET="+l.dir+"/munge.socket", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func (l *slurmLab) write(name, text string, mode os.FileMode) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), mode); err != nil {
		l.t.Fatal(err)
	}
}

// daemon starts a daemon that ends with the test.
func (l *slurmLab) daemon(words ...string) {
	l.t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = l.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		l.t.Skipf("no Slurm here: %v", err)
	}
	l.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

// endSteps ends the daemons of steps, which go on when the daemon that made them has ended, to tell it that theirs has.
func (l *slurmLab) endSteps() {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, []byte("SLURM_CONF="+l.dir+"/slurm.conf\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// until waits for a state of the lab, without which there is nothing to test.
func (l *slurmLab) until(what string, there func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !there(); {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(l.dir, "slurmctld.log"))
			l.t.Skipf("no Slurm here: never came that %s\n%s", what, log)
		}
	}
}

// job runs a shell command in an allocation of both nodes with so many tasks, in which fpmrun and launchprog are in PATH.
func (l *slurmLab) job(tasks int, script string) result {
	l.t.Helper()
	return l.run(l.t.TempDir(), "", "salloc", "-Q", "-N2", fmt.Sprintf("-n%d", tasks), "--overcommit", "sh", "-c", script)
}

// run runs one of Slurm's programs to its end, in a folder and with a text on its standard input.
func (l *slurmLab) run(dir, stdin string, words ...string) result {
	l.t.Helper()
	if _, err := launchprog(); err != nil {
		l.t.Fatal(err)
	}
	cmd := command(l.t, dir, "fpmrun")
	path, err := exec.LookPath(words[0])
	if err != nil {
		l.t.Fatal(err)
	}
	cmd.Path, cmd.Args = path, words
	cmd.Env = append(l.environ(), "FPM_TEST_LAB="+l.dir)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		l.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// batch submits a script with some flags, in a folder, and is the job's number.
func (l *slurmLab) batch(dir, script string, flags ...string) string {
	l.t.Helper()
	path := filepath.Join(dir, "job.sh")
	if err := os.WriteFile(path, []byte("#!/bin/bash\n"+script), 0o755); err != nil {
		l.t.Fatal(err)
	}
	r := l.run(dir, "", append(append([]string{"sbatch", "--parsable", "--overcommit"}, flags...), path)...)
	if r.status != 0 {
		l.t.Fatalf("sbatch exited with status %d\n%s", r.status, r.stderr)
	}
	return strings.TrimSpace(r.stdout)
}

// file waits until a file is there and has this many bytes.
func (l *slurmLab) file(path string, least int) string {
	l.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(70 * time.Second); ; <-again.C {
		if text, err := os.ReadFile(path); err == nil && len(text) >= least {
			return string(text)
		}
		if time.Now().After(deadline) {
			jobs := l.run(l.dir, "", "squeue", "-o", "%i %T %r %S")
			log, _ := os.ReadFile(filepath.Join(l.dir, "slurmctld.log"))
			l.t.Fatalf("%s never came\n%s\n%s", path, jobs.stdout, log)
		}
	}
}

// freePorts are ports that are free on the loopback interface.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		ports = append(ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
