package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/stream/zmtp"
)

// read reads in a goroutine of its own; what comes is in the channel.
func read(t *testing.T, address string) <-chan Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, done := make(chan Event, 100), make(chan struct{})
	go func() {
		defer close(done)
		reader := Reader{Address: address}
		if err := reader.Read(ctx, func(e Event) error { events <- e; return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("reading ended with %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return events
}

func next(t *testing.T, events <-chan Event, kind Kind) Event {
	t.Helper()
	select {
	case e := <-events:
		if e.Kind != kind {
			t.Fatalf("%+v, want kind %d", e, kind)
		}
		return e
	case <-time.After(time.Minute):
		t.Fatalf("nothing comes, want kind %d", kind)
		panic("unreachable")
	}
}

func closed(t *testing.T, p interface{ Close() error }) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A reader outlives its publisher, finds the next one at the same address, and is there before the first.
func TestReaderOutlivesPublishers(t *testing.T) {
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	closed(t, l)
	events := read(t, address)
	if e := next(t, events, Absent); e.Err == nil || e.Address != address {
		t.Errorf("%+v, want why", e)
	}
	for life := range 2 {
		p, err := Listen(t.Context(), address, Config{})
		if err != nil {
			t.Fatal(err)
		}
		p.Resume()
		next(t, events, Subscribed)
		for i := range 3 {
			r := record(i)
			p.Publish(r)
			e := next(t, events, Received)
			r.CounterID = int(e.Sequence)
			if diff := cmp.Diff(r, e.Record); diff != "" {
				t.Error(diff)
			}
			if e.Lost != 0 || e.Restarted != (life == 1 && i == 0) {
				t.Errorf("life %d, record %d: %+v", life, i, e)
			}
		}
		closed(t, p)
		next(t, events, Absent)
	}
}

// Messages that are no records are passed over; gaps are told.
func TestReaderPassesOver(t *testing.T) {
	pub, err := zmtp.Listen(t.Context(), "127.0.0.1:0", zmtp.PubConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close(0)
	events := read(t, pub.Addr().String())
	next(t, events, Subscribed)
	good, err := Encode(artifact.FPM{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	later, err := Encode(artifact.FPM{Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	send := func(n uint64, payload []byte) { pub.Send(nil, binary.BigEndian.AppendUint64(nil, n), payload) }
	send(10, good)
	if e := next(t, events, Received); e.Lost != 0 || e.Sequence != 10 {
		t.Errorf("%+v", e)
	}
	send(12, later) // the format says version 1; Encode would not be asked for another
	if e := next(t, events, Skipped); e.Lost != 1 || e.Sequence != 12 || !strings.Contains(e.Err.Error(), "version 2") {
		t.Errorf("%+v", e)
	}
	send(13, []byte("nonsense"))
	if e := next(t, events, Skipped); e.Lost != 0 || e.Sequence != 13 || !errors.Is(e.Err, ErrRecord) {
		t.Errorf("%+v", e)
	}
	pub.Send([]byte("something else"))
	if e := next(t, events, Skipped); e.Lost != 0 || !strings.Contains(e.Err.Error(), "1 frames") {
		t.Errorf("%+v", e)
	}
	send(20, good)
	if e := next(t, events, Received); e.Lost != 6 || e.Sequence != 20 {
		t.Errorf("%+v", e)
	}
}

// A server of another kind is an error at once, and a caller's error ends the reading.
func TestReaderEnds(t *testing.T) {
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, conn) // until the reader hangs up
	}()
	wrong := Reader{Address: l.Addr().String()}
	if err := wrong.Read(t.Context(), func(Event) error { return nil }); !errors.Is(err, zmtp.ErrProtocol) || !strings.Contains(err.Error(), "tcp://"+wrong.Address) {
		t.Errorf("%v, want ErrProtocol with the address", err)
	}
	<-done

	p, err := Listen(t.Context(), "127.0.0.1:0", Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, p)
	enough := errors.New("enough")
	reader := Reader{Address: p.Addr().String()}
	if err := reader.Read(t.Context(), func(Event) error { return enough }); err != enough { //nolint:errorlint // it is returned as it is
		t.Errorf("%v, want %v", err, enough)
	}
}
