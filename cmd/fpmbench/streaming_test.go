package main

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/stream/zmtp"
)

func TestStreamFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // of the reason; "": accepted
	}{
		{[]string{"--stream-port", "20380"}, ""},
		{[]string{"--stream-port", "0", "--stream-host", "127.0.0.1", "--stream-points"}, ""},
		{[]string{"--stream-port", "65535"}, ""},
		{[]string{"--stream-port", "-1"}, "--stream-port -1: want an integer from 0 to 65535"},
		{[]string{"--stream-host", "127.0.0.1"}, "--stream-host 127.0.0.1: nothing is published without --stream-port; give it, such as 20380"},
		{[]string{"--stream-port", "0", "--stream-points", "--stream-wait", "2m"}, ""},
		{[]string{"--stream-port", "0", "--stream-wait", "5"}, "--stream-wait 5s: nothing is published that a subscriber could miss; give --stream-points, too"},
		{[]string{"--stream-port", "0", "--stream-points", "--stream-wait", "121"}, "--stream-wait 2m1s: want at most 2m0s"},
		{[]string{"--stream-points"}, "--stream-points: nothing is published without --stream-port"},
	} {
		code, _, stderr := dry(t, nil, c.args...)
		if c.want == "" && code != 0 || c.want != "" && (code != exit.Usage || !strings.Contains(stderr, c.want)) {
			t.Errorf("%v: status %d, want %q\n%s", c.args, code, c.want, stderr)
		}
	}
}

// Each rank needs a port, which is known before anything is done.
func TestStreamPorts(t *testing.T) {
	o := newOptions()
	if err := o.stream.port.Set("65530"); err != nil {
		t.Fatal(err)
	}
	if err := o.stream.checkPorts(6); err != nil {
		t.Error(err)
	}
	if err := o.stream.checkPorts(7); err == nil || !strings.Contains(err.Error(), "--stream-port 65530: ranks 0 to 6 use the ports 65530-65536: want a base from 1 to 65529") {
		t.Error(err)
	}
}

// A publisher says where it is; that its ports may be taken by the kernel it says once, and only where they may. A port that is taken names the rank.
func TestStreamOpens(t *testing.T) {
	const inRange, warning, useless = "1 65535", "address already in use", "nothing will be published"
	for _, c := range []struct {
		name      string
		port      string // "": the one that is taken already
		rank      int
		points    bool
		ephemeral string
		want      []string
	}{
		{"any port is never warned of", "0", 0, true, inRange, []string{"publishing records"}},
		{"each rank says where any port is", "0", 3, true, inRange, []string{"publishing records"}},
		{"nothing to publish", "0", 0, false, inRange, []string{"publishing records", useless}},
		{"a port that is taken", "", 0, true, inRange, []string{warning, "DP rank 0 cannot publish at port"}},
		{"the range is elsewhere", "", 0, true, "1 2", []string{"DP rank 0 cannot publish at port"}},
		{"the range is not known", "", 0, true, "", []string{"DP rank 0 cannot publish at port"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			p := &program{log: slog.New(slog.NewTextHandler(&log, nil))}
			proc := fstest.MapFS{"sys/net/ipv4/ip_local_port_range": {Data: []byte(c.ephemeral)}}
			open := func(port string, points bool, proc fstest.MapFS) (*live, error) {
				o := newOptions()
				o.flags()
				if err := o.stream.port.Set(port); err != nil {
					t.Fatal(err)
				}
				o.stream.host, o.stream.points = "127.0.0.1", points
				return p.stream(t.Context(), o, c.rank, 4, proc)
			}
			port := c.port
			if port == "" {
				first, err := open("0", true, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer end(t, first)
				address := first.Addr().String()
				port = address[strings.LastIndexByte(address, ':')+1:]
				log.Reset()
			}
			l, err := open(port, c.points, proc)
			if err != nil {
				log.WriteString(err.Error())
			} else {
				end(t, l)
			}
			if (err == nil) != (c.port != "") {
				t.Error(err)
			}
			for _, part := range []string{"publishing records", warning, useless, "cannot publish at port"} {
				wanted := 0
				for _, w := range c.want {
					wanted += strings.Count(w, part)
				}
				if part == warning && c.port == "" {
					wanted++ // the error's own
				}
				if got := strings.Count(log.String(), part); got != wanted {
					t.Errorf("%q stands there %d times, want %d:\n%s", part, got, wanted, log.String())
				}
			}
		})
	}
}

func end(t *testing.T, l *live) {
	t.Helper()
	if err := l.end(); err != nil {
		t.Error(err)
	}
}

// What is logged can be typed: no interface is not an address.
func TestReachable(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ip   net.IP
		want string
	}{{net.IPv6unspecified, host + ":7"}, {net.IPv4zero, host + ":7"}, {net.IPv4(127, 0, 0, 1), "127.0.0.1:7"}, {net.IPv6loopback, "[::1]:7"}} {
		if got := reachable(&net.TCPAddr{IP: c.ip, Port: 7}); got != c.want {
			t.Errorf("%v: %q, want %q", c.ip, got, c.want)
		}
	}
}

// Without the flag there is no publisher, and nothing to do for it.
func TestNoStream(t *testing.T) {
	o := newOptions()
	l, err := (&program{}).stream(t.Context(), o, 0, 1, nil)
	if l != nil || err != nil {
		t.Fatalf("%v, %v", l, err)
	}
	o.stream.points = true
	if l.record(&o.stream) != nil {
		t.Error("records are wanted")
	}
	l.wait(t.Context(), time.Hour, nil)
	l.resume()
	end(t, l)
}

// Waiting ends with a subscriber, with the limit, which is said, and with a signal.
func TestStreamWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit time.Duration
		begin func(t *testing.T, l *live, stop chan struct{})
		want  string
	}{
		{"no limit is no wait", 0, func(*testing.T, *live, chan struct{}) {}, ""},
		{"nobody comes", time.Millisecond, func(*testing.T, *live, chan struct{}) {}, "no subscriber came; going on without"},
		{"a signal", time.Hour, func(_ *testing.T, _ *live, stop chan struct{}) { close(stop) }, ""},
		{"a subscriber", time.Hour, func(t *testing.T, l *live, _ chan struct{}) {
			sub, err := zmtp.Dial(t.Context(), l.Addr().String(), zmtp.SubConfig{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { sub.Close() })
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			p := &program{log: slog.New(slog.NewTextHandler(&log, nil))}
			o := newOptions()
			o.flags()
			if err := o.stream.port.Set("0"); err != nil {
				t.Fatal(err)
			}
			o.stream.host, o.stream.points = "127.0.0.1", true
			l, err := p.stream(t.Context(), o, 1, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer end(t, l)
			stop := make(chan struct{})
			c.begin(t, l, stop)
			l.wait(t.Context(), c.limit, stop)
			if got := strings.Contains(log.String(), "no subscriber came"); got != (c.want != "") {
				t.Errorf("it says %s", log.String())
			}
		})
	}
}

// Points are published with --stream-points only; what comes after them always is.
func TestStreamIsSilentDuringPoints(t *testing.T) {
	for _, points := range []bool{false, true} {
		p := &program{log: slog.New(slog.DiscardHandler)}
		o := newOptions()
		o.flags()
		if err := o.stream.port.Set("0"); err != nil {
			t.Fatal(err)
		}
		o.stream.host, o.stream.points = "127.0.0.1", points
		l, err := p.stream(t.Context(), o, 0, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if evidence := l.evidence(&o.stream); (evidence != nil) != points {
			t.Errorf("with points %v the document says %v", points, evidence)
		}
		if record := l.record(&o.stream); (record != nil) != points {
			t.Errorf("with points %v records are told: %v", points, record != nil)
		}
		l.Publish(artifact.FPM{}) // during a point
		l.resume()
		l.Publish(artifact.FPM{})
		end(t, l)
		want := uint64(1)
		if points {
			want = 2
		}
		if got := l.Stats().Published; got != want {
			t.Errorf("with points %v %d records were published, want %d", points, got, want)
		}
	}
}
