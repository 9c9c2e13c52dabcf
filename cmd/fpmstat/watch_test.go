package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/stream"
	"github.com/fpmrun/fpmrun/stream/zmtp"
)

// lines is a stream of a program under test; each write is a line.
type lines struct {
	bytes.Buffer
	each chan string
}

func (l *lines) Write(b []byte) (int, error) {
	l.Buffer.Write(b)
	l.each <- string(b)
	return len(b), nil
}

// watching is a watch in progress.
type watching struct {
	t         *testing.T
	out, talk lines
	status    chan int
}

func startWatch(t *testing.T, args ...string) *watching {
	t.Helper()
	w := &watching{t: t, out: lines{each: make(chan string, 100)}, talk: lines{each: make(chan string, 100)}, status: make(chan int, 1)}
	go func() { w.status <- run(t.Context(), append([]string{"fpmstat", "watch"}, args...), &w.out, &w.talk) }()
	return w
}

// says waits for a line.
func says(t *testing.T, l *lines, part string) string {
	t.Helper()
	select {
	case line := <-l.each:
		if !strings.Contains(line, part) {
			t.Fatalf("it says %q, want %q", line, part)
		}
		return line
	case <-time.After(time.Minute):
		t.Fatalf("it says nothing, want %q", part)
		return ""
	}
}

func (w *watching) ends(status int) {
	w.t.Helper()
	if got := <-w.status; got != status {
		w.t.Errorf("status %d, want %d\n%s", got, status, w.talk.String())
	}
}

func publisher(t *testing.T, rank int) *stream.Publisher {
	t.Helper()
	p, err := stream.Listen(t.Context(), "127.0.0.1:0", stream.Config{WorkerID: "w", DPRank: rank})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// pass is the record of a forward pass.
func pass(rank, batch int) artifact.FPM {
	return artifact.FPM{Version: 1, WorkerID: "w", DPRank: rank, WallTime: 0.0015, Scheduled: artifact.Scheduled{NumDecodeRequests: batch, SumDecodeKVTokens: 1 << 40}}
}

// Records of several publishers come as JSON, integers digit for digit, until so many have come as were asked for.
func TestWatchJSON(t *testing.T) {
	a, b := publisher(t, 0), publisher(t, 1)
	w := startWatch(t, "--json", "--count", "3", "tcp://"+a.Addr().String(), b.Addr().String())
	says(t, &w.talk, "subscribed")
	says(t, &w.talk, "subscribed")
	a.Resume()
	b.Resume()
	a.Publish(pass(0, 1))
	says(t, &w.out, `"sum_decode_kv_tokens":1099511627776`)
	b.Publish(pass(1, 2))
	says(t, &w.out, `"dp_rank":1`)
	a.Publish(artifact.FPM{WorkerID: "w"})
	says(t, &w.out, `"heartbeat":true`)
	w.ends(0)
	type object struct {
		Address   string
		Sequence  int
		Lost      int
		Heartbeat bool
		Record    artifact.FPM
	}
	var got []object
	for dec := json.NewDecoder(&w.out.Buffer); dec.More(); {
		var o object
		if err := dec.Decode(&o); err != nil {
			t.Fatal(err)
		}
		got = append(got, o)
	}
	numbered := func(r artifact.FPM, n int) artifact.FPM {
		r.CounterID = n
		return r
	}
	want := []object{
		{"tcp://" + a.Addr().String(), 0, 0, false, numbered(pass(0, 1), 0)},
		{"tcp://" + b.Addr().String(), 0, 0, false, numbered(pass(1, 2), 0)},
		{"tcp://" + a.Addr().String(), 1, 0, true, artifact.FPM{Version: 1, WorkerID: "w", CounterID: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The table has its head once. What a publisher calls itself does not reach the terminal as it is.
func TestWatchTable(t *testing.T) {
	p := publisher(t, 3)
	w := startWatch(t, "--count", "2", "--no-heartbeats", p.Addr().String())
	says(t, &w.talk, "subscribed")
	p.Resume()
	p.Publish(artifact.FPM{})
	r := pass(3, 8)
	r.WorkerID = "evil\x1b[2J"
	r.Queued.NumPrefillRequests = 4
	p.Publish(r)
	p.Publish(artifact.FPM{DPRank: 3, WallTime: 0.25, Scheduled: artifact.Scheduled{NumPrefillRequests: 2, SumPrefillTokens: 64, SumPrefillKVTokens: 128}})
	w.ends(0)
	const want = `
DP rank   sequence     time, ms   prefill reqs new tokens  KV tokens   decode reqs  KV tokens   waiting prefill waiting decode   worker
      3          1        1.500              0          0          0             8 1099511627776                 4              0   "evil\x1b[2J"
      3          2      250.000              2         64        128             0          0                 0              0   -
`
	if diff := cmp.Diff(want, "\n"+w.out.String()); diff != "" {
		t.Error(diff)
	}
}

// Gaps, records of other versions and a publisher that began anew are said, and the next record still comes.
func TestWatchTells(t *testing.T) {
	pub, err := zmtp.Listen(t.Context(), "127.0.0.1:0", zmtp.PubConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pub.Close(0); err != nil {
			t.Error(err)
		}
	}()
	record, err := stream.Encode(pass(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, "--json", "--count", "3", pub.Addr().String())
	says(t, &w.talk, "subscribed")
	for i, c := range []struct {
		sequence uint64
		payload  []byte
		out      string
		talk     string
	}{
		{7, record, `"lost":0`, ""},
		{10, record, `"lost":2`, "2 messages before number 10 did not come"},
		{11, []byte{0x81, 0xa7, 'v', 'e', 'r', 's', 'i', 'o', 'n', 9}, "", "message 11 is passed over: stream: a record of version 9, want 1"},
		{0, record, `"sequence":0`, "the publisher has started anew"},
	} {
		pub.Send(nil, binary.BigEndian.AppendUint64(nil, c.sequence), c.payload)
		if c.talk != "" {
			says(t, &w.talk, c.talk)
		}
		if c.out != "" {
			says(t, &w.out, c.out)
		}
		if n := len(w.talk.each) + len(w.out.each); n > 0 && i < 3 {
			t.Errorf("after message %d %d lines more stand there", c.sequence, n)
		}
	}
	w.ends(0)
}

func TestWatchEnds(t *testing.T) {
	p := publisher(t, 0)
	address := p.Addr().String()
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--timeout", "0.01", address}, 0, ""},
		{[]string{"--count", "3", "--timeout", "10ms", address}, exit.Failed, "watch: 0 of 3 records came within 10ms"},
		{nil, exit.Usage, "watch: no address given; want tcp://HOST:PORT such as tcp://127.0.0.1:20380"},
		{[]string{"ipc:///tmp/x"}, exit.Usage, `watch: "ipc:///tmp/x" is no TCP address`},
		{[]string{address, "--json"}, exit.Usage, "watch: --json stands behind an address; flags come first"},
		{[]string{address, "tcp://" + address}, exit.Usage, "is given twice"},
		{[]string{"--count", "0", address}, exit.Usage, "--count 0: want an integer of at least 1"},
		{[]string{"--timeout", "soon", address}, exit.Usage, "--timeout soon: want seconds"},
		{[]string{"--prometheus", "x", address}, exit.Usage, "watch: --prometheus x: want PORT or HOST:PORT"},
		{[]string{"--prometheus", address, address}, exit.Failed, "address already in use"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append([]string{"fpmstat", "watch"}, c.args...), &stdout, &stderr)
		if status != c.status || !strings.Contains(stderr.String(), c.says) || stdout.Len() > 0 {
			t.Errorf("%v: status %d, want %d and %q\n%s%s", c.args, status, c.status, c.says, stdout.String(), stderr.String())
		}
	}
}

// What is scraped is what came: counts by publisher, sums and the last record by rank.
func TestWatchPrometheus(t *testing.T) {
	p := publisher(t, 0)
	address := p.Addr().String()
	w := startWatch(t, "--json", "--prometheus", "0", "--count", "4", address)
	line := says(t, &w.talk, "metrics at http://")
	url := strings.TrimSpace(line[strings.Index(line, "http://"):])
	says(t, &w.talk, "subscribed")
	p.Resume()
	first := pass(5, 1) // another rank's, which is then forgotten
	p.Publish(first)
	p.Publish(pass(0, 8))
	p.Publish(artifact.FPM{})
	for range 3 {
		says(t, &w.out, `"sequence"`)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	of := fmt.Sprintf(`{address="%s"}`, address)
	rank := fmt.Sprintf(`{address="%s",dp_rank="0"}`, address)
	want := []string{
		"fpm_stream_up" + of + " 1", "fpm_stream_heartbeats_total" + of + " 1", "fpm_stream_lost_total" + of + " 0",
		"fpm_records_total" + rank + " 1", "fpm_wall_time_seconds_total" + rank + " 0.0015", "fpm_last_wall_time_seconds" + rank + " 0.0015",
		"fpm_last_scheduled_prefill_requests" + rank + " 0", "fpm_last_scheduled_prefill_tokens" + rank + " 0", "fpm_last_scheduled_prefill_kv_tokens" + rank + " 0",
		"fpm_last_scheduled_decode_requests" + rank + " 8", "fpm_last_scheduled_decode_kv_tokens" + rank + " 1.099511627776e+12",
		"fpm_last_queued_prefill_requests" + rank + " 0", "fpm_last_queued_prefill_tokens" + rank + " 0",
		"fpm_last_queued_decode_requests" + rank + " 0", "fpm_last_queued_decode_kv_tokens" + rank + " 0",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	p.Publish(pass(0, 1))
	w.ends(0)
}
