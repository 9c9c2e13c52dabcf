package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T, cfg PubConfig) *Pub {
	t.Helper()
	p, err := Listen(t.Context(), "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePub(t, p) })
	return p
}

func closePub(t *testing.T, p *Pub) {
	t.Helper()
	if err := p.Close(0); err != nil {
		t.Error(err)
	}
}

// subscribe connects and waits until the subscription is in force.
func subscribe(t *testing.T, p *Pub, cfg SubConfig) *Sub {
	t.Helper()
	s, err := Dial(t.Context(), p.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// dial is a TCP client that says what the test lets it say.
func dial(t *testing.T, p *Pub) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// greeted is a TCP client behind its handshake as a subscriber.
func greeted(t *testing.T, p *Pub) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := dial(t, p)
	r := bufio.NewReader(conn)
	if _, err := shake(conn, r, "SUB", "PUB"); err != nil {
		t.Fatal(err)
	}
	return conn, r
}

func number(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }

// want receives messages i to n-1 in order.
func want(t *testing.T, s *Sub, topic string, i, n int) {
	t.Helper()
	for ; i < n; i++ {
		got, err := s.Next(t.Context())
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if diff := cmp.Diff([][]byte{[]byte(topic), number(i)}, got); diff != "" {
			t.Fatalf("message %d: %s", i, diff)
		}
	}
}

// gone waits until the publisher has closed a connection.
func gone(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the publisher keeps the connection")
	}
}

// Everyone gets what it subscribed to, in order and whole, empty and long frames included.
func TestTopics(t *testing.T) {
	p := listen(t, PubConfig{})
	all, some := subscribe(t, p, SubConfig{}), subscribe(t, p, SubConfig{Prefix: "ab"})
	long := make([]byte, 100_000)
	p.Send([]byte("a"), number(0))
	p.Send([]byte("abc"), []byte{}, long)
	p.Send([]byte(""), number(1))
	p.Send([]byte("ab"), number(2))
	messages := [][][]byte{{[]byte("a"), number(0)}, {[]byte("abc"), {}, long}, {{}, number(1)}, {[]byte("ab"), number(2)}}
	for _, c := range []struct {
		s    *Sub
		want [][][]byte
	}{{all, messages}, {some, [][][]byte{messages[1], messages[3]}}} {
		for i, want := range c.want {
			got, err := c.s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(want, got, bytes.Equal) {
				t.Errorf("message %d of %q: %.200q, want %.200q", i, c.s.cfg.Prefix, got, want)
			}
		}
	}
	if got, want := p.Stats(), (PubStats{Subscribers: 2, Joined: 2, Sent: 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A subscription counts as often as it was made, in either version's form.
func TestSubscriptions(t *testing.T) {
	p := listen(t, PubConfig{})
	conn, r := greeted(t, p)
	select {
	case <-p.Subscribed():
		t.Error("subscribed to before anybody asked")
	default:
	}
	say := func(bytes []byte) {
		t.Helper()
		if _, err := conn.Write(appendCommand(bytes, "PING", []byte("\x00\x00.."))); err != nil {
			t.Fatal(err)
		}
		if f, err := readFrame(r, 100); err != nil || string(f.body) != "\x04PONG.." {
			t.Fatalf("%q, %v, want PONG", f.body, err)
		}
	}
	for i, c := range []struct {
		request string
		taken   bool
	}{
		{"\x00\x02\x01t", true},
		{string(appendCommand(nil, "SUBSCRIBE", []byte("t"))), true},
		{"\x00\x02\x00t", true},                                     // one of the two is left
		{string(appendCommand(nil, "CANCEL", []byte("x"))), true},   // was never made
		{string(appendCommand(nil, "CANCEL", []byte("t"))), false},  // the last
		{string(appendCommand(nil, "CANCEL", []byte("t"))), false},  // one too many
		{string(appendCommand(nil, "SUBSCRIBE", []byte(""))), true}, // everything
		{"\x00\x02\x07t", true},                                     // something else that a subscriber may say
	} {
		say([]byte(c.request))
		<-p.Subscribed()
		before := p.Stats().Sent
		p.Send([]byte("t"), number(i))
		if taken := p.Stats().Sent > before; taken != c.taken {
			t.Errorf("after request %d, %q: sent %v, want %v", i, c.request, taken, c.taken)
		}
		for n := 0; c.taken && n < 2; n++ {
			if _, err := readFrame(r, 100); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Silent and wrong clients do not keep a subscriber out, and their connections end.
func TestIntruders(t *testing.T) {
	p := listen(t, PubConfig{Handshake: 50 * time.Millisecond})
	var all []net.Conn
	for _, text := range []string{"", "\xff", "GET / HTTP/1.1\r\n\r\n", said(ready("PULL")), said(), string(make([]byte, 1000))} {
		conn := dial(t, p)
		all = append(all, conn)
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	s := subscribe(t, p, SubConfig{Handshake: time.Minute})
	p.Send(nil, number(0))
	want(t, s, "", 0, 1)
	for _, conn := range all {
		gone(t, conn)
	}
	p.Send(nil, number(1))
	want(t, s, "", 1, 2)
	closePub(t, p) // after which all that is counted has been
	if got := p.Stats(); got.Refused != uint64(len(all)) || got.Joined != 1 {
		t.Errorf("%+v, want %d refused", got, len(all))
	}
}

// A subscriber that misbehaves after its handshake loses its connection; others do not notice.
func TestSubscriberMisbehaves(t *testing.T) {
	many := []byte{}
	for range subscriptions + 1 {
		many = append(many, "\x00\x02\x01t"...)
	}
	p := listen(t, PubConfig{})
	s := subscribe(t, p, SubConfig{})
	for _, c := range []struct{ name, text string }{
		{"a long frame", "\x02\x00\x00\x00\x00\x00\x00\x04\x01"},
		{"no frame", "\xff\xff"},
		{"many subscriptions", string(many)},
		{"a PING without a time", string(appendCommand(nil, "PING", []byte("x")))},
		{"a PING that says much", string(appendCommand(nil, "PING", make([]byte, 19)))},
		{"a command without a name", "\x04\x00"},
		{"an error", string(appendCommand(nil, "ERROR", nil))},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, _ := greeted(t, p)
			if _, err := conn.Write([]byte(c.text)); err != nil {
				t.Fatal(err)
			}
			gone(t, conn)
		})
	}
	p.Send(nil, number(0))
	want(t, s, "", 0, 1)
}

// A subscriber that does not read loses messages, which are counted; another gets all of them in order. Sending goes on all the time.
func TestStopped(t *testing.T) {
	const n, queue = 500, 10
	p := listen(t, PubConfig{Queue: queue})
	stopped := subscribe(t, p, SubConfig{})
	if err := stopped.conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, p, SubConfig{Prefix: "n"})
	large := make([]byte, 64<<10)
	for i := range n {
		p.Send(nil, large) // more in all than socket buffers hold
		p.Send([]byte("n"), number(i))
		want(t, s, "n", i, i+1)
	}
	before := p.Stats()
	if before.Dropped == 0 || before.Sent+before.Dropped != 3*n {
		t.Errorf("%+v, want some dropped, and %d in all", before, 3*n)
	}
	closePub(t, p)
	got := p.Stats()
	if got.Dropped <= before.Dropped+queue {
		t.Errorf("%+v behind %+v, want what was queued and being written at the end among the dropped", got, before)
	}
}

// What is queued when the publisher ends still arrives, and then the end.
func TestCloseLingers(t *testing.T) {
	const n = 1000
	p := listen(t, PubConfig{})
	s := subscribe(t, p, SubConfig{})
	for i := range n {
		p.Send(nil, number(i))
	}
	if err := p.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	want(t, s, "", 0, n)
	if _, err := s.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want io.EOF", err)
	}
	p.Send(nil, number(n))
	if got, want := p.Stats(), (PubStats{Joined: 1, Sent: n}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	p := listen(t, PubConfig{Connections: 1})
	s := subscribe(t, p, SubConfig{})
	second, err := Dial(t.Context(), p.Addr().String(), SubConfig{})
	if err == nil {
		err = second.Confirm(t.Context())
		second.Close()
	}
	if err == nil {
		t.Error("a second subscriber was taken")
	}
	p.Send(nil, number(0))
	want(t, s, "", 0, 1)
	if got := p.Stats(); got.Refused != 1 {
		t.Errorf("%+v, want 1 refused", got)
	}
}

// As many silent clients as there may be keep nobody out: the oldest makes room.
func TestSilentClientsMakeRoom(t *testing.T) {
	p := listen(t, PubConfig{Connections: 2, Handshake: time.Hour})
	silent := []net.Conn{dial(t, p), dial(t, p), dial(t, p)} // the third takes the first one's place
	gone(t, silent[0])
	s := subscribe(t, p, SubConfig{})
	gone(t, silent[1])
	p.Send(nil, number(0))
	want(t, s, "", 0, 1)
	closePub(t, p)
	if got := p.Stats(); got.Refused != 2 || got.Joined != 1 {
		t.Errorf("%+v, want two refused", got)
	}
	gone(t, silent[2])
}

// A message says as well as an answer that the subscription is in force, and is not lost.
func TestConfirmedByMessage(t *testing.T) {
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() { // a publisher that answers no PING
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
			_, err = shake(conn, bufio.NewReader(conn), "PUB", "SUB")
		}
		if err == nil {
			_, err = conn.Write(appendMessage(nil, [][]byte{nil, number(0)}))
		}
		if err == nil {
			_, err = io.Copy(io.Discard, conn)
		}
		done <- err
	}()
	s, err := Dial(t.Context(), l.Addr().String(), SubConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s, "", 0, 1)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestConfigRefused(t *testing.T) {
	if p, err := Listen(t.Context(), "127.0.0.1:0", PubConfig{Queue: -1}); err == nil {
		closePub(t, p)
		t.Error("a queue of -1 was taken")
	}
	if s, err := Dial(t.Context(), "127.0.0.1:1", SubConfig{Frames: -1}); err == nil {
		s.Close()
		t.Error("-1 frames were taken")
	}
}

// Waiting ends with its context, with the context's reason.
func TestNextIsBounded(t *testing.T) {
	p := listen(t, PubConfig{})
	s := subscribe(t, p, SubConfig{})
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if _, err := s.Next(ctx); !errors.Is(err, reason) {
		t.Errorf("%v, want %v", err, reason)
	}
	p.Send(nil, number(0)) // nothing was read, so nothing is lost
	want(t, s, "", 0, 1)
}

// A publisher's message with more or longer frames than asked for is an error.
func TestSubIsBounded(t *testing.T) {
	p := listen(t, PubConfig{})
	for _, c := range []struct {
		cfg    SubConfig
		frames [][]byte
	}{{SubConfig{Frames: 2}, [][]byte{{}, {}, {}}}, {SubConfig{Frame: 100}, [][]byte{make([]byte, 101)}}} {
		s := subscribe(t, p, c.cfg)
		p.Send(c.frames...)
		if got, err := s.Next(t.Context()); !errors.Is(err, ErrProtocol) {
			t.Errorf("%v, %v, want ErrProtocol", got, err)
		}
	}
}
