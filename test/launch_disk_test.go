package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A full disk under --output-dir is one error that names the file; the ranks run on, and the status is 1 unless a rank
// failed as well.
func TestLaunchOutputDirFull(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	defer func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		name, end string
		status    int
	}{{"ranks succeed", "exit 0", 1}, {"a rank fails", "exit $((FPM_RANK * 7))", 7}} {
		dir := t.TempDir()
		r := execute(t, dir, "fpmrun", "-np", "2", "--output-dir", filepath.Join(disk, "logs"), "sh", "-c", "seq 1 100000; : >done$FPM_RANK; "+c.end)
		if r.status != c.status || strings.Count(r.stderr, "no space left on device") != 1 || !strings.Contains(r.stderr, filepath.Join(disk, "logs", "rank-000")) {
			t.Errorf("%s: status %d, want %d and one error that names a file\n%s", c.name, r.status, c.status, r.stderr)
		}
		for _, name := range []string{"done0", "done1"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s: a rank did not come to its end: %v", c.name, err)
			}
		}
		if err := os.RemoveAll(filepath.Join(disk, "logs")); err != nil {
			t.Fatal(err)
		}
	}
}
