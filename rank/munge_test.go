package rank

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newMunge starts a munged of the test's own; the test is skipped where there is none.
func newMunge(t *testing.T) munge {
	t.Helper()
	program, err := exec.LookPath("munged")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs root and munged; on Debian apt-get install munge")
	}
	dir, err := os.MkdirTemp("", "fpmmunge") //nolint:usetesting // the path of a socket must be short, and other users must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/key", []byte(strings.Repeat("a key of this test only; ", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-F", "--force", "--socket="+dir+"/s", "--key-file="+dir+"/key", "--pid-file="+dir+"/pid", "--log-file="+dir+"/log", "--seed-file="+dir+"/seed")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	m, there := munge{}, false
	for deadline := time.Now().Add(10 * time.Second); !there; {
		if m, there = findMunge(environ("FPM_MUNGE_SOCKET=" + dir + "/s")); !there && time.Now().After(deadline) {
			t.Fatal("munged does not listen")
		}
	}
	return m
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Ranks of one user get one fresh secret, past a silent program and another run at the first candidates.
func TestMeetByMunge(t *testing.T) {
	m := newMunge(t)
	addresses := freeAddresses(t, 6)
	silent, err := net.Listen("tcp", addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var tokens []string
	for _, run := range []string{"first", "second"} {
		id := Identity{Source: FromSlurm, Size: 2, RunID: run, Rendezvous: addresses}
		zero, err := meetByMunge(t.Context(), &id, m, quiet())
		if err != nil {
			t.Fatal(err)
		}
		defer zero.close()
		id.Rank = 1
		one, err := meetByMunge(t.Context(), &id, m, quiet())
		if err != nil || string(one.token) != string(zero.token) || one.address != zero.address || one.auth != AuthMunge {
			t.Errorf("%s: rank 0 has %+v, rank 1 %+v (%v)", run, zero, one, err)
		}
		tokens = append(tokens, string(zero.token))
	}
	if tokens[0] == tokens[1] {
		t.Error("two runs have one secret")
	}
}

// Many ranks that ask at once all get the secret: those for whom no credential is being made yet wait for their turn.
func TestMungeDeskQueue(t *testing.T) {
	m := newMunge(t)
	id := Identity{Source: FromSlurm, Size: 64, RunID: "run", Rendezvous: freeAddresses(t, 3)}
	zero, err := meetByMunge(t.Context(), &id, m, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer zero.close()
	results := make(chan error, id.Size)
	for rank := 1; rank < id.Size; rank++ {
		go func() {
			secret, err := m.askAt(t.Context(), id.Rendezvous[0], runSum("run"))
			if err == nil && secret != string(zero.token)+" "+zero.address {
				err = fmt.Errorf("secret %q", secret)
			}
			results <- err
		}()
	}
	for range id.Size - 1 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if zero.address != id.Rendezvous[2] {
		t.Errorf("the rendezvous is at %s, want the last candidate of %v", zero.address, id.Rendezvous)
	}
}

// A process of another user can neither read the secret nor hand out one of its own.
func TestMungeOtherUser(t *testing.T) {
	m := newMunge(t)
	credential, err := m.seal(t.Context(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	as := func(program, stdin string, flags ...string) (string, error) {
		cmd := m.command(t.Context(), program, flags...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if text, err := as("unmunge", credential); err == nil || strings.Contains(text, "secret") {
		t.Errorf("another user reads %q", text)
	}
	forged, err := as("munge", "fpm", "--restrict-uid=0")
	if err != nil {
		t.Fatalf("%v: %s", err, forged)
	}
	if text, err := m.open(t.Context(), forged); err == nil || !strings.Contains(err.Error(), "a process of user 65534") {
		t.Errorf("a credential of another user holds %q (%v)", text, err)
	}
	if text, err := m.open(t.Context(), "MUNGE:garbage:"); err == nil || !strings.Contains(err.Error(), "unmunge: ") {
		t.Errorf("garbage holds %q (%v)", text, err)
	}
	if text, err := m.open(t.Context(), credential); err != nil || text != "secret" {
		t.Errorf("%q (%v), want the secret", text, err)
	}
}

// Whoever asks wrongly gets nothing, and rank 0 stays.
func TestMungeDeskStrangers(t *testing.T) {
	m := newMunge(t)
	id := Identity{Source: FromSlurm, Size: 2, RunID: "run", Rendezvous: freeAddresses(t, 3)}
	zero, err := meetByMunge(t.Context(), &id, m, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer zero.close()
	for _, line := range []string{"GET / HTTP/1.1\n", fmt.Sprintf("%s %s x\n", mungeGreeting, runSum("other")), strings.Repeat("x", 2*maxGreeting)} {
		conn, err := net.Dial("tcp", id.Rendezvous[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(conn); len(text) > 0 { // not even that it is a desk
			t.Errorf("%.20q is answered by %q", line, text)
		}
		conn.Close()
	}
	id.Rank = 1
	if one, err := meetByMunge(t.Context(), &id, m, quiet()); err != nil || string(one.token) != string(zero.token) {
		t.Errorf("%+v (%v)", one, err)
	}
}

// A socket that nobody serves is told at once, by every rank.
func TestDeadMunge(t *testing.T) {
	m := newMunge(t)
	dir := t.TempDir()
	dead, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	m.socket = filepath.Join(dir, "s")
	for rank := range 2 {
		id := Identity{Source: FromSlurm, Rank: rank, Size: 2, RunID: "run", Rendezvous: freeAddresses(t, 2)}
		if _, err := meetByMunge(t.Context(), &id, m, quiet()); err == nil || !strings.Contains(err.Error(), "munged is there but cannot be used: munge: ") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// A host without munged has no munge.
func TestNoMunge(t *testing.T) {
	if _, there := findMunge(environ("FPM_MUNGE_SOCKET=" + filepath.Join(t.TempDir(), "no"))); there {
		t.Error("found")
	}
}
