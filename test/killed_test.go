package test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A worker that is killed while experts are shared ends the whole job with its rank as the cause, and without a merged document.
func TestKilledWorker(t *testing.T) {
	for _, victim := range []int{1, 2} { // a worker of the first engine, the leader of the second
		t.Run(fmt.Sprintf("rank%d", victim), func(t *testing.T) {
			dir := t.TempDir()
			writePoints(t, filepath.Join(dir, "points.json"), 4000)
			const rank = `echo $$ >pid$FPM_RANK; exec fpmbench --model tiny-moe --mode decode --dp 2 --tp 2 --expert-parallel --points-file points.json --output-path out/benchmark.json`
			cmd := command(t, dir, "fpmrun", "-np", "4", "sh", "-c", rank)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			pid := 0
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				text.WriteString(lines.Text() + "\n")
				if pid > 0 || !strings.Contains(lines.Text(), " points, ") {
					continue
				}
				number, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("pid%d", victim)))
				if err != nil {
					t.Fatal(err)
				}
				if pid, err = strconv.Atoi(strings.TrimSpace(string(number))); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 137 {
				t.Fatalf("status %d (%v), want 137\n%s", cmd.ProcessState.ExitCode(), err, text.String())
			}
			if want := fmt.Sprintf("fpmrun: rank %d (pid %d, ", victim, pid); !strings.Contains(text.String(), want) {
				t.Errorf("the cause is not named, want %q\n%s", want, text.String())
			}
			if merged, err := filepath.Glob(filepath.Join(dir, "out", "*merged*")); err != nil || len(merged) > 0 {
				t.Errorf("merged files %v (%v)", merged, err)
			}
		})
	}
}

// writePoints writes a points file of n decode points, 8 of each context length.
func writePoints(t *testing.T, path string, n int) {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"schema_version": 1, "prefill": [], "decode": [`)
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		batch := i%8 + 1
		fmt.Fprintf(&b, `{"batch_size": %d, "total_kv_read_tokens": %d}`, batch, batch*(i/8+1))
	}
	b.WriteString("]}\n")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
