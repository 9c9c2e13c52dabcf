package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/stream"
)

// subscribers are the commands of the examples that subscribe through libzmq: the Python one and the C one.
func subscribers(t *testing.T) (python, c []string) {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import zmq, msgpack").Run() == nil {
			python = []string{name, example(t, "subscriber.py")}
			break
		}
	}
	if python == nil {
		t.Skip("pyzmq and msgpack are not installed for python3; on Debian: python3-zmq python3-msgpack")
	}
	program := filepath.Join(t.TempDir(), "subscriber")
	out, err := exec.Command("cc", "-Wall", "-Wextra", "-Werror", "-O1", "-o", program, example(t, "subscriber.c"), "-lzmq").CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) || bytes.Contains(out, []byte("zmq.h: No such file")) || bytes.Contains(out, []byte("cannot find -lzmq")) {
		t.Skip("no C compiler or no libzmq to compile with; on Debian: gcc libzmq3-dev")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return python, []string{program}
}

func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../examples/stream", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// seen is what a subscriber prints for one message.
type seen struct {
	Sequence uint64
	Lost     uint64
	Record   artifact.FPM
}

// subscriber is a subscriber in a process of its own.
type subscriber struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	lines *json.Decoder
	talk  bytes.Buffer
}

// begin starts a subscriber and waits until it has got a first message.
func begin(t *testing.T, words []string, address string, count int) *subscriber {
	t.Helper()
	cmd := command(t, t.TempDir(), "")
	path, err := exec.LookPath(words[0])
	if err != nil {
		t.Fatal(err)
	}
	words = append(append([]string{}, words...), "tcp://"+address)
	if count > 0 {
		words = append(words, fmt.Sprint(count))
	}
	cmd.Path, cmd.Args = path, words
	s := &subscriber{t: t, name: filepath.Base(words[len(words)-2]), cmd: cmd}
	cmd.Stderr = &s.talk
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.lines = json.NewDecoder(bufio.NewReader(out))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // unless it has ended
		_ = cmd.Wait()
	})
	s.next()
	return s
}

// next is the next message.
func (s *subscriber) next() seen {
	s.t.Helper()
	var m seen
	if err := s.lines.Decode(&m); err != nil {
		s.t.Fatalf("%s: %v\n%s", s.name, err, s.talk.String())
	}
	return m
}

// signal sends the process a signal.
func (s *subscriber) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// passes are n records whose members differ and need every size of integer.
func passes(n int) []artifact.FPM {
	all := make([]artifact.FPM, n)
	for i := range all {
		size := 1 << (i % 50)
		all[i] = artifact.FPM{
			Version: 1, WorkerID: "wörker \"1\"", DPRank: i % 7, WallTime: artifact.Float(0.001 + float64(i)/3),
			Scheduled: artifact.Scheduled{NumPrefillRequests: i, SumPrefillTokens: size, VarPrefillLength: artifact.Float(math.Sqrt(float64(i))), SumPrefillKVTokens: size - 1, NumDecodeRequests: n - i, SumDecodeKVTokens: 3 * size, VarDecodeKVTokens: 1e-300},
			Queued:    artifact.Queued{NumPrefillRequests: i % 3, SumPrefillTokens: i * i, VarPrefillLength: 0.1, NumDecodeRequests: 255, SumDecodeKVTokens: 65536, VarDecodeKVTokens: 1e300},
		}
	}
	return all
}

// connect makes a TCP connection.
func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// pyzmq and a C program on libzmq decode a thousand records in order, none missing, while a client that says nothing, subscribers that are stopped, and clients
// that send garbage, one of them behind a good handshake, are connected.
func TestStreamZeroMQ(t *testing.T) {
	python, c := subscribers(t)
	p, err := stream.Listen(t.Context(), "127.0.0.1:0", stream.Config{Heartbeat: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	address := p.Addr().String()
	p.Resume()

	connect(t, address) // silent
	for _, hello := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x03\x01NULL" + strings.Repeat("\x00", 48) +
		"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB" + "\x00\x01\x01" + "\x55\xaa\x55\xaa"} {
		garbage := connect(t, address)
		if _, err := io.WriteString(garbage, hello); err != nil {
			t.Fatal(err)
		}
		go func() {
			for { // until the publisher hangs up
				if _, err := io.WriteString(garbage, strings.Repeat("\x7f\xfe", 100)); err != nil {
					return
				}
			}
		}()
	}
	begin(t, python, address, 0).signal(syscall.SIGSTOP)
	begin(t, c, address, 0).signal(syscall.SIGSTOP)

	want := passes(1000)
	good := []*subscriber{begin(t, python, address, len(want)), begin(t, c, address, len(want))}
	for _, r := range want {
		p.Publish(r)
	}
	for _, s := range good {
		var got []artifact.FPM
		for len(got) < len(want) {
			m := s.next()
			if m.Lost > 0 || m.Record.CounterID != int(m.Sequence) {
				t.Fatalf("%s: %+v", s.name, m)
			}
			if !stream.Heartbeat(m.Record) {
				m.Record.CounterID = 0
				got = append(got, m.Record)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", s.name, diff)
		}
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", s.name, err, s.talk.String())
		}
	}
	if s := p.Stats(); s.Refused < 1 || s.Overflowed > 0 || s.Joined < 5 {
		t.Errorf("%+v, want one client refused, five joined", s)
	}
}

// A subscriber that was stopped while more was published than its queue holds goes on afterwards; it misses as many messages as were counted as dropped.
func TestStreamStoppedZeroMQ(t *testing.T) {
	python, c := subscribers(t)
	for _, words := range [][]string{python, c} {
		p, err := stream.Listen(t.Context(), "127.0.0.1:0", stream.Config{Heartbeat: 20 * time.Millisecond, Backlog: 200})
		if err != nil {
			t.Fatal(err)
		}
		p.Resume()
		s := begin(t, words, p.Addr().String(), 1)
		s.signal(syscall.SIGSTOP)
		waiting := artifact.FPM{Queued: artifact.Queued{NumDecodeRequests: 1}} // time 0: not counted by the subscriber
		for p.Stats().Dropped < 1000 {
			p.Publish(waiting)
		}
		p.Flush() // the publisher's own queue is empty from here on, and heartbeats alone cannot fill the subscriber's again
		s.signal(syscall.SIGCONT)
		var lost uint64
		for lost < p.Stats().Dropped { // heartbeats show what is missing; a last record published before all of it is known might be dropped itself
			lost += s.next().Lost
		}
		p.Publish(artifact.FPM{WallTime: 1})
		for last := false; !last; {
			m := s.next()
			lost += m.Lost
			last = m.Record.WallTime == 1
		}
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", s.name, err, s.talk.String())
		}
		stats := p.Stats()
		if lost != stats.Dropped {
			t.Errorf("%s: %d messages did not come, %d were dropped", s.name, lost, stats.Dropped)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// publishPython is a publisher on libzmq. It prints its address and publishes until its input ends.
const publishPython = `
import struct, sys, threading, msgpack, zmq
socket = zmq.Context().socket(zmq.PUB)
port = socket.bind_to_random_port("tcp://127.0.0.1")
print(f"tcp://127.0.0.1:{port}", flush=True)
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
sequence = 0
while not over.wait(0.001):
    record = {"version": 1, "worker_id": "py", "dp_rank": 4, "counter_id": sequence, "wall_time": 0.125 + sequence,
              "scheduled_requests": {"num_decode_requests": sequence, "sum_decode_kv_tokens": 2**40}, "queued_requests": {}}
    socket.send_multipart([b"", struct.pack(">Q", sequence), msgpack.packb(record)])
    sequence += 1
socket.close(0)
`

// fpmstat watch reads what a publisher on libzmq sends.
func TestWatchZeroMQ(t *testing.T) {
	python, _ := subscribers(t)
	cmd := command(t, t.TempDir(), "")
	path, err := exec.LookPath(python[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args = path, []string{python[0], "-c", publishPython}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	r := succeed(t, t.TempDir(), "fpmstat", "watch", "--json", "--count", "100", "--timeout", "60", strings.TrimSpace(address))
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
	lines := json.NewDecoder(strings.NewReader(r.stdout))
	first := -1
	for i := range 100 {
		var m seen
		if err := lines.Decode(&m); err != nil {
			t.Fatal(err)
		}
		n := int(m.Sequence)
		if first < 0 {
			first = n
		}
		want := artifact.FPM{Version: 1, WorkerID: "py", DPRank: 4, CounterID: n, WallTime: 0.125 + artifact.Float(n), Scheduled: artifact.Scheduled{NumDecodeRequests: n, SumDecodeKVTokens: 1 << 40}}
		if diff := cmp.Diff(want, m.Record); diff != "" || n != first+i || m.Lost != 0 {
			t.Fatalf("record %d, behind %d: lost %d, %s", n, first, m.Lost, diff)
		}
	}
}
