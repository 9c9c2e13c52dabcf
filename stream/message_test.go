package stream

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fpmrun/fpmrun/artifact"
)

func TestParseMessage(t *testing.T) {
	payload, err := Encode(example())
	if err != nil {
		t.Fatal(err)
	}
	number := []byte{0, 0, 0, 0, 0, 0, 1, 2}
	for _, c := range []struct {
		name   string
		frames [][]byte
		want   Message
		err    string // "" is none
	}{
		{"whole", [][]byte{{}, number, payload}, Message{Sequence: 258, Record: example()}, ""},
		{"a topic", [][]byte{[]byte("fpm"), number, payload}, Message{Sequence: 258, Record: example()}, ""},
		{"two frames", [][]byte{number, payload}, Message{}, "2 frames, want 3"},
		{"four frames", [][]byte{{}, number, payload, {}}, Message{}, "4 frames, want 3"},
		{"a short number", [][]byte{{}, number[1:], payload}, Message{}, "7 bytes, want 8"},
		{"no record", [][]byte{{}, number, {}}, Message{Sequence: 258}, "no record"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseMessage(c.frames)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHeartbeat(t *testing.T) {
	for _, c := range []struct {
		r    artifact.FPM
		want bool
	}{
		{artifact.FPM{Version: 1, WorkerID: "w", DPRank: 2, CounterID: 9}, true},
		{artifact.FPM{Version: 1, WallTime: 1}, false},
		{artifact.FPM{Scheduled: artifact.Scheduled{NumDecodeRequests: 1}}, false},
		{artifact.FPM{Queued: artifact.Queued{NumDecodeRequests: 1}}, false},
	} {
		if got := Heartbeat(c.r); got != c.want {
			t.Errorf("%+v: %v, want %v", c.r, got, c.want)
		}
	}
}

// What did not come between two numbers is lost; lower numbers are another publisher's.
func TestSequence(t *testing.T) {
	var s Sequence
	for i, c := range []struct {
		n, lost   uint64
		restarted bool
	}{{5, 0, false}, {6, 0, false}, {9, 2, false}, {10, 0, false}, {0, 0, true}, {1, 0, false}, {1, 0, true}, {math.MaxUint64 - 1, math.MaxUint64 - 3, false}} {
		if lost, restarted := s.Add(c.n); lost != c.lost || restarted != c.restarted {
			t.Errorf("number %d, %d: lost %d, restarted %v, want %+v", i, c.n, lost, restarted, c)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for _, c := range []struct{ given, want, err string }{
		{"tcp://127.0.0.1:20380", "127.0.0.1:20380", ""},
		{"node1:1", "node1:1", ""},
		{"tcp://[::1]:65535", "[::1]:65535", ""},
		{"ipc:///tmp/x", "", "no TCP address"},
		{"http://host:80", "", "no TCP address"},
		{"tcp://host", "", "no address"},
		{"::1:20380", "", "no address"},
		{"tcp://*:20380", "", "names no host"},
		{":20380", "", "names no host"},
		{"tcp://[://]:1", "", "names no host"},
		{"tcp://[host]:1", "host:1", ""},
		{"tcp://a b:1", "", "names no host"},
		{"tcp://[fe80::1%eth0]:9", "[fe80::1%eth0]:9", ""},
		{"host:0", "", "no port"},
		{"host:65536", "", "no port"},
		{"host:http", "", "no port"},
	} {
		got, err := ParseAddress(c.given)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %q, %v, want %q, %q", c.given, got, err, c.want, c.err)
		}
	}
}

func TestVersionErrorIsNoRecordError(t *testing.T) {
	if err := error(&VersionError{2}); errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), "version 2, want 1") {
		t.Error(err)
	}
}
