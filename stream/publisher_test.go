package stream

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/stream/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is a transport that keeps what is sent, and the times.
type sink struct {
	t       *testing.T
	began   time.Time
	sent    []artifact.FPM
	at      []time.Duration
	hold    chan struct{} // Send waits for it; nil: it does not
	lingers time.Duration
}

func (s *sink) Send(frames ...[]byte) {
	if s.hold != nil {
		<-s.hold
	}
	m, err := ParseMessage(frames)
	if err != nil {
		s.t.Error(err)
	}
	if len(frames[0]) != 0 || m.Sequence != uint64(m.Record.CounterID) {
		s.t.Errorf("topic %q, number %d, counter_id %d", frames[0], m.Sequence, m.Record.CounterID)
	}
	s.sent, s.at = append(s.sent, m.Record), append(s.at, time.Since(s.began))
}

func (s *sink) Subscribed() <-chan struct{} { return nil }

func (s *sink) Stats() zmtp.PubStats { return zmtp.PubStats{Joined: 7} }

func (s *sink) Close(linger time.Duration) error {
	s.lingers = linger
	return errors.New("closed")
}

// publish has f use a publisher in a bubble with a clock of its own, closes it and returns what was sent.
func publish(t *testing.T, cfg Config, hold chan struct{}, f func(p *Publisher)) (*sink, Stats) {
	t.Helper()
	var s *sink
	var stats Stats
	synctest.Test(t, func(t *testing.T) {
		if hold != nil {
			hold = make(chan struct{}) // of the bubble
		}
		s = &sink{t: t, began: time.Now(), hold: hold}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		p := newPublisher(s, cfg)
		f(p)
		synctest.Wait()
		if hold != nil {
			close(hold)
		}
		if err := p.Close(); err == nil {
			t.Error("the transport was not closed, or its error is lost")
		}
		if err := p.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
		stats = p.Stats()
	})
	if s.lingers != time.Second {
		t.Errorf("subscribers had %v at the end, want a second", s.lingers)
	}
	return s, stats
}

func record(tokens int) artifact.FPM {
	return artifact.FPM{Version: 1, WorkerID: "w", DPRank: 2, CounterID: 99, WallTime: 1, Scheduled: artifact.Scheduled{SumPrefillTokens: tokens}}
}

func tokens(s *sink) []int {
	all := []int{}
	for _, r := range s.sent {
		all = append(all, r.Scheduled.SumPrefillTokens)
	}
	return all
}

// A publisher begins paused: what is published then is for nobody and takes no number. What is published afterwards is numbered from 0, in order.
func TestPublisherPause(t *testing.T) {
	s, stats := publish(t, Config{}, nil, func(p *Publisher) {
		p.Publish(record(1))
		p.Resume()
		p.Publish(record(2))
		p.Publish(record(3))
		synctest.Wait()
		p.Pause()
		p.Publish(record(4))
		time.Sleep(10 * time.Second) // no heartbeat either
		p.Resume()
		p.Publish(record(5))
	})
	if diff := cmp.Diff([]int{2, 3, 5}, tokens(s)); diff != "" {
		t.Error(diff)
	}
	for i, r := range s.sent {
		want := record(r.Scheduled.SumPrefillTokens)
		want.CounterID = i
		if diff := cmp.Diff(want, r); diff != "" {
			t.Error(diff)
		}
	}
	if want := (Stats{Published: 3, Withheld: 2, PubStats: zmtp.PubStats{Joined: 7}}); stats != want {
		t.Errorf("%+v, want %+v", stats, want)
	}
}

// A heartbeat comes when nothing was sent for a second, and has a number as any record.
func TestPublisherHeartbeat(t *testing.T) {
	s, stats := publish(t, Config{WorkerID: "w", DPRank: 2}, nil, func(p *Publisher) {
		time.Sleep(5 * time.Second)
		p.Resume() // at 5 s
		time.Sleep(1500 * time.Millisecond)
		p.Publish(record(1)) // at 6.5 s, behind the heartbeat of 6 s
		time.Sleep(2100 * time.Millisecond)
	})
	beat := artifact.FPM{Version: 1, WorkerID: "w", DPRank: 2}
	want := []artifact.FPM{beat, record(1), beat, beat}
	for i := range want {
		want[i].CounterID = i
	}
	if diff := cmp.Diff(want, s.sent); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]time.Duration{6 * time.Second, 6500 * time.Millisecond, 7500 * time.Millisecond, 8500 * time.Millisecond}, s.at); diff != "" {
		t.Error(diff)
	}
	if stats.Heartbeats != 3 || stats.Published != 4 {
		t.Errorf("%+v, want 3 heartbeats of 4", stats)
	}
}

// A full queue drops what comes, counts it, and has no gap in the numbers.
func TestPublisherOverflow(t *testing.T) {
	s, stats := publish(t, Config{Queue: 3}, make(chan struct{}), func(p *Publisher) {
		p.Resume()
		p.Publish(record(0)) // which the transport holds
		synctest.Wait()
		for i := 1; i <= 5; i++ {
			p.Publish(record(i))
		}
	})
	if diff := cmp.Diff([]int{0, 1, 2, 3}, tokens(s)); diff != "" {
		t.Error(diff)
	}
	if stats.Overflowed != 2 || stats.Published != 4 {
		t.Errorf("%+v, want 2 overflowed", stats)
	}
}

// Flush waits for what was published before it, and for nothing else.
func TestPublisherFlush(t *testing.T) {
	publish(t, Config{Queue: 3}, make(chan struct{}), func(p *Publisher) {
		p.Flush()
		p.Resume()
		hold := p.transport.(*sink).hold
		for i := range 5 {
			p.Publish(record(i))
			synctest.Wait() // the first is with the transport, three are queued, the fifth is dropped
		}
		flushed := make(chan struct{})
		go func() {
			p.Flush()
			close(flushed)
		}()
		for range 4 {
			synctest.Wait()
			select {
			case <-flushed:
				t.Error("flushed before all was sent")
			default:
			}
			hold <- struct{}{}
		}
		<-flushed
	})
}

// The format's readers expect a queue of ten thousand and a heartbeat a second.
func TestConfigDefaults(t *testing.T) {
	var cfg Config
	if err := cfg.Validate(); err != nil || cfg.Queue != 10000 || cfg.Backlog != 4096 || cfg.Heartbeat != time.Second {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestConfigRefused(t *testing.T) {
	for _, cfg := range []Config{{Queue: -1}, {Backlog: -1}, {Heartbeat: -1}, {WorkerID: "\xff"}} {
		if p, err := Listen(t.Context(), "127.0.0.1:0", cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
