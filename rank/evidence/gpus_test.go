package evidence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program writes a shell script that stands for fpmgpu.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fpmgpu")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// answering samples each GPU of each request, the third time at a power cap.
const answering = `n=0
while read id uuids; do
  n=$((n + 1)); reason=; [ $n = 3 ] && reason='"sw_power_cap"'
  for u in $uuids; do echo '{"v":1,"kind":"sample","uuid":"'$u'","sm_mhz":1980,"power_w":512.5,"throttle":['$reason']}'; done
  echo 'a warning of the driver'
  case $uuids in *lost*) echo '{"v":1,"kind":"answer","id":"'$id'","error":"it is lost"}' ;; *) echo '{"v":1,"kind":"answer","id":"'$id'"}' ;; esac
done`

func start(t *testing.T, script string) *GPUs {
	t.Helper()
	g, err := StartGPUs(program(t, script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestGPUReadings(t *testing.T) {
	g := start(t, answering)
	for i := 1; i <= 4; i++ {
		got, err := g.Read(t.Context(), []string{"GPU-a", "GPU-b"})
		if err != nil || len(got) != 2 || got[1].UUID != "GPU-b" || *got[0].SM != 1980 || *got[0].Power != 512.5 || got[0].Temperature != nil {
			t.Fatalf("request %d: %+v (%v)", i, got, err)
		}
		if throttled := len(got[0].Throttle) > 0; throttled != (i == 3) || got[0].Throttle == nil {
			t.Errorf("request %d: throttle %q", i, got[0].Throttle)
		}
	}
	if _, err := g.Read(t.Context(), []string{"GPU-lost"}); err == nil || !strings.Contains(err.Error(), "it is lost") {
		t.Errorf("a lost GPU: %v", err)
	}
	if got, err := g.Read(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("after a failed request: %+v (%v)", got, err)
	}
}

// An answer that comes too late is not taken for that of a later request.
func TestLateAnswer(t *testing.T) {
	dir := t.TempDir()
	g := start(t, `cd `+dir+`
mkfifo go
while read id uuids; do
  case $uuids in late) read _ <go ;; esac
  echo '{"kind":"sample","uuid":"'$uuids'"}'; echo '{"kind":"answer","id":"'$id'"}'
done`)
	first, err := g.Read(t.Context(), []string{"first"})
	if err != nil || first[0].UUID != "first" {
		t.Fatalf("%+v (%v)", first, err)
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := g.Read(ended, []string{"late"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("late: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := g.Read(t.Context(), []string{"next"}); err != nil || len(got) != 1 || got[0].UUID != "next" {
		t.Errorf("next: %+v (%v)", got, err)
	}
}

// A process that hangs is given up after a few requests, and is gone when the readings are closed.
func TestHungProcess(t *testing.T) {
	g := start(t, "exec sleep 1000")
	for i := range mostMissed + 2 {
		ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := g.Read(ended, []string{"GPU-a"})
		cancel()
		if gaveUp := err != nil && strings.Contains(err.Error(), "given up"); err == nil || gaveUp != (i >= mostMissed) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if g.process.ProcessState == nil {
		t.Error("the process is left")
	}
}

// A process that ends says why.
func TestEndedProcess(t *testing.T) {
	g := start(t, "echo 'fpmgpu: there is no driver' >&2; exit 1")
	for range 2 {
		if _, err := g.Read(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "there is no driver") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := StartGPUs(filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a program that is not there was started")
	}
}
