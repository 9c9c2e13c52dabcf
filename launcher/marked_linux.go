package launcher

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"github.com/fpmrun/fpmrun/rank/env"
)

// killMarked kills every process that carries a run's id in its environment: what is left of a job whose keeper is
// gone and can no longer name its descendants.
func killMarked(runID string) {
	marker := []byte(env.KeyRunID + "=" + runID + "\x00")
	for range 3 { // what was started while the table was read is found by the next look
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		found := false
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
			if err == nil && bytes.Contains(append(environ, 0), marker) {
				found = true
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if !found {
			return
		}
	}
}
