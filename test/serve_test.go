package test

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// After the run rank 0 stays and serves the documents, until a signal comes; the files are those of any run.
func TestServe(t *testing.T) {
	for _, c := range []struct {
		program string
		args    []string
		status  int // after the signal; fpmrun ends with its own
	}{{"fpmbench", nil, 0}, {"fpmrun", []string{"-np", "2", "fpmbench"}, 130}} {
		t.Run(c.program, func(t *testing.T) {
			dir := t.TempDir()
			cmd := command(t, dir, c.program, append(c.args, "--points-file", points(t), "--output-path", "benchmark.json", "--serve", "0")...)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/get_perf_metrics`)
			var text strings.Builder
			var served struct {
				RunID  string
				Engine struct{ Resolution string }
			}
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				text.WriteString(lines.Text() + "\n")
				address := url.FindString(lines.Text())
				if address == "" {
					continue
				}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				doc := map[string]json.RawMessage{}
				if err := json.NewDecoder(response.Body).Decode(&doc); err != nil {
					t.Error(err)
				}
				response.Body.Close()
				if json.Unmarshal(doc["run_id"], &served.RunID) != nil || json.Unmarshal(doc["engine"], &served.Engine) != nil {
					t.Errorf("served %s, %s", doc["run_id"], doc["engine"])
				}
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != c.status {
				t.Fatalf("status %d (%v), want %d\n%s", cmd.ProcessState.ExitCode(), err, c.status, text.String())
			}
			files, all := rankFiles(dir, max(1, 2*len(c.args)/3))
			check(t, all...)
			if doc := read(t, files[0]); doc.RunID != served.RunID || !doc.Valid || served.Engine.Resolution != "worker_probe" {
				t.Errorf("served run %q with resolution %q, the file is of %q", served.RunID, served.Engine.Resolution, doc.RunID)
			}
		})
	}
}

// An address that is taken ends the run before anything is measured.
func TestServeAddressIsTaken(t *testing.T) {
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	r := execute(t, dir, "fpmrun", "-np", "2", "fpmbench", "--output-path", "benchmark.json", "--serve", l.Addr().String())
	if r.status != 1 || !strings.Contains(r.stderr, l.Addr().String()) || !strings.Contains(r.stderr, "address already in use") {
		t.Errorf("status %d\n%s", r.status, r.stderr)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
