package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// memoryCgroup makes a cgroup with a limit in bytes, of whichever version can be written, and returns its folder.
func memoryCgroup(t *testing.T, limit string) string {
	t.Helper()
	name := fmt.Sprintf("fpmrun-test-%d", os.Getpid())
	var reasons []string
	for _, try := range []struct{ parent, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}, {"/sys/fs/cgroup/unified", "memory.max"},
	} {
		dir := filepath.Join(try.parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		})
		if _, err := os.Stat(filepath.Join(dir, try.limit)); err != nil {
			reasons = append(reasons, "no memory controller in "+dir)
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, try.limit), []byte(limit), 0o644); err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		return dir
	}
	t.Skipf("no memory cgroup can be made: %s", strings.Join(reasons, "; "))
	return ""
}

// The out-of-memory killer ends a rank: status 137, and the words that say so. A plain kill -9 in the same cgroup is not called that.
func TestLaunchCase07OutOfMemory(t *testing.T) {
	group := memoryCgroup(t, "67108864")
	inGroup := func(script string) result {
		var stdout, stderr strings.Builder
		cmd := exec.Command("sh", "-c", "echo $$ >"+group+"/cgroup.procs && exec "+bin+"/fpmrun -np 2 sh -c '"+script+"'")
		cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &stdout, &stderr
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	}
	// tail keeps what it reads for ever, since there is no newline in it.
	r := inGroup("[ $FPM_RANK = 1 ] && exec tail /dev/zero; exec sleep 100")
	if want := "rank 1 (pid "; r.status != 137 || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "was killed by signal 9 (killed), out of memory in cgroup "+group+", limit 64.0 MiB, after") {
		t.Errorf("status %d, want 137 and the reason\n%s", r.status, r.stderr)
	}
	r = inGroup("[ $FPM_RANK = 1 ] && kill -9 $$; exec sleep 100")
	if r.status != 137 || strings.Contains(r.stderr, "memory") {
		t.Errorf("a plain kill: status %d, want 137 and no word of memory\n%s", r.status, r.stderr)
	}
}
