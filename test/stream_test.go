package test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/stream"
)

// published starts a program and returns the addresses at which its ranks publish, by DP rank. Its messages are kept until output is called, which waits for its end.
func published(t *testing.T, cmd *exec.Cmd, ranks int) (addresses []string, output func() string) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	says := regexp.MustCompile(`publishing records.* dp_rank=(\d+) address=tcp://(\S+)`)
	var text strings.Builder
	addresses = make([]string, ranks)
	lines := bufio.NewScanner(stderr)
	for missing := ranks; missing > 0 && lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if m := says.FindStringSubmatch(lines.Text()); m != nil {
			var rank int
			if _, err := fmt.Sscan(m[1], &rank); err != nil || rank >= ranks {
				t.Fatalf("rank %q", m[1])
			}
			addresses[rank] = m[2]
			missing--
		}
	}
	return addresses, func() string {
		for lines.Scan() {
			text.WriteString(lines.Text() + "\n")
		}
		if err := cmd.Wait(); cmd.ProcessState == nil {
			t.Error(err)
		}
		return text.String()
	}
}

// manyPoints is a points file with n decode points of a step and one more each.
func manyPoints(t *testing.T, dir string, n int) string {
	t.Helper()
	type point struct {
		Batch int `json:"batch_size"`
		KV    int `json:"total_kv_read_tokens"`
	}
	m := struct {
		Version int     `json:"schema_version"`
		Prefill []any   `json:"prefill"`
		Decode  []point `json:"decode"`
	}{1, []any{}, nil}
	for i := range n {
		m.Decode = append(m.Decode, point{1, 2 + i})
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "points.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// With --stream-points each rank publishes the raw records of its document, in their order and numbered from 0; all of them come where the run waits for
// a subscriber.
func TestStreamPoints(t *testing.T) {
	dir := t.TempDir()
	cmd := command(t, dir, "fpmrun", "-np", "2", "fpmbench", "--mode", "decode", "--points-file", manyPoints(t, dir, 20), "--output-path", "benchmark.json",
		"--stream-port", "0", "--stream-host", "127.0.0.1", "--stream-points", "--stream-wait", "60", "--worker-id", "w")
	addresses, output := published(t, cmd, 2)
	over := errors.New("the publisher has ended")
	received, done := make([][]stream.Message, 2), make(chan error, 2)
	for rank, address := range addresses {
		go func() {
			reader := stream.Reader{Address: address}
			done <- reader.Read(t.Context(), func(e stream.Event) error {
				switch {
				case e.Kind == stream.Absent:
					return over
				case e.Kind == stream.Skipped || e.Lost > 0 || e.Restarted:
					return fmt.Errorf("rank %d: %+v", rank, e)
				case e.Kind == stream.Received && e.Sequence != uint64(e.Record.CounterID):
					return fmt.Errorf("rank %d: %+v", rank, e)
				case e.Kind == stream.Received && !stream.Heartbeat(e.Record): // which come while it waits, and when a point takes long
					received[rank] = append(received[rank], e.Message)
				}
				return nil
			})
		}()
	}
	for range addresses {
		if err := <-done; !errors.Is(err, over) {
			t.Error(err)
		}
	}
	text := output()
	files, all := rankFiles(dir, 2)
	check(t, all...)
	for rank, path := range files {
		own := struct {
			Fpmrun struct {
				Stream struct{ Messages, Subscribers, Dropped int }
			}
		}{}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content, &own); err != nil {
			t.Fatal(err)
		}
		if s := own.Fpmrun.Stream; s.Messages < len(received[rank]) || s.Subscribers != 1 || s.Dropped != 0 {
			t.Errorf("rank %d: the document says %+v of %d records", rank, s, len(received[rank]))
		}
		var want []stream.Message
		for _, result := range read(t, path).Results {
			for _, r := range result.FPMs[0].Measurement.Raw {
				r.Sample = nil
				want = append(want, stream.Message{Record: r})
			}
		}
		got := received[rank]
		if len(got) != len(want) {
			t.Fatalf("rank %d: %d records of %d came\n%s", rank, len(got), len(want), text)
		}
		for i := range want { // heartbeats have numbers, too
			want[i].Sequence, want[i].Record.CounterID = got[i].Sequence, int(got[i].Sequence)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rank %d: %s", rank, diff)
		}
	}
}

// Without it the stream is silent while points are measured; with --serve every rank publishes heartbeats afterwards, until a signal comes.
func TestStreamHeartbeats(t *testing.T) {
	dir := t.TempDir()
	cmd := command(t, dir, "fpmrun", "-np", "2", "fpmbench", "--points-file", points(t), "--output-path", "benchmark.json",
		"--serve", "0", "--stream-port", "0", "--stream-host", "127.0.0.1", "--worker-id", "w")
	addresses, output := published(t, cmd, 2)
	enough := errors.New("enough")
	for rank, address := range addresses {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		reader := stream.Reader{Address: address}
		err := reader.Read(ctx, func(e stream.Event) error {
			if e.Kind != stream.Received {
				return nil
			}
			want := artifact.FPM{Version: 1, WorkerID: "w", DPRank: rank, CounterID: int(e.Sequence)}
			if diff := cmp.Diff(want, e.Record); diff != "" {
				return errors.New(diff)
			}
			if n++; n == 2 {
				return enough
			}
			return nil
		})
		cancel()
		if !errors.Is(err, enough) {
			t.Error(err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	text := output()
	if status := cmd.ProcessState.ExitCode(); status != 130 || strings.Contains(text, "level=ERROR") {
		t.Errorf("status %d, want 130\n%s", status, text)
	}
	_, all := rankFiles(dir, 2)
	check(t, all...)
}

// A port that is taken ends the run before anything is measured.
func TestStreamPortIsTaken(t *testing.T) {
	p, err := stream.Listen(t.Context(), "127.0.0.1:0", stream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, port, _ := strings.Cut(p.Addr().String(), ":")
	dir := t.TempDir()
	r := execute(t, dir, "fpmrun", "-np", "2", "fpmbench", "--output-path", "benchmark.json", "--stream-port", port, "--stream-host", "127.0.0.1")
	if r.status != 1 || !strings.Contains(r.stderr, "--stream-port "+port+": DP rank 0 cannot publish at port "+port) || !strings.Contains(r.stderr, "address already in use") {
		t.Errorf("status %d\n%s", r.status, r.stderr)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// fpmstat watch shows what a run publishes while it runs, as its documents have it.
func TestStreamWatched(t *testing.T) {
	dir := t.TempDir()
	cmd := command(t, dir, "fpmbench", "--mode", "decode", "--points-file", manyPoints(t, dir, 5), "--output-path", "benchmark.json", "--stream-port", "0", "--stream-host", "127.0.0.1", "--stream-points", "--stream-wait", "60")
	addresses, output := published(t, cmd, 1)
	r := succeed(t, dir, "fpmstat", "watch", "--json", "--no-heartbeats", "--count", "3", "--timeout", "60", "tcp://"+addresses[0])
	text := output()
	if cmd.ProcessState.ExitCode() != 0 {
		t.Fatal(text)
	}
	times := map[artifact.Float]bool{}
	for _, result := range read(t, filepath.Join(dir, "benchmark.json")).Results {
		for _, raw := range result.FPMs[0].Measurement.Raw {
			times[raw.WallTime] = true
		}
	}
	var n int
	for dec := json.NewDecoder(strings.NewReader(r.stdout)); dec.More(); n++ {
		var line struct{ Record artifact.FPM }
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if !times[line.Record.WallTime] {
			t.Errorf("no raw sample took %v", line.Record.WallTime)
		}
	}
	if n != 3 || !strings.Contains(r.stderr, "subscribed") {
		t.Errorf("%d records, want 3\n%s", n, r.stderr)
	}
}
