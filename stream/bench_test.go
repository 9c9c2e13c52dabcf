package stream

import (
	"context"
	"testing"
)

// BenchmarkSend is what the publisher's goroutine does with a record, up to the subscribers' queues: with none, one that reads, and one that is stopped.
func BenchmarkSend(b *testing.B) {
	for _, c := range []struct {
		name               string
		subscribe, reading bool
	}{{"nobody", false, false}, {"reading", true, true}, {"stopped", true, false}} {
		b.Run(c.name, func(b *testing.B) {
			p, err := Listen(b.Context(), "127.0.0.1:0", Config{})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			done, joined := make(chan struct{}), make(chan struct{}, 1)
			if c.subscribe {
				go func() {
					defer close(done)
					reader := Reader{Address: p.Addr().String()}
					_ = reader.Read(ctx, func(e Event) error {
						if e.Kind == Subscribed {
							joined <- struct{}{}
						}
						if !c.reading {
							<-ctx.Done()
						}
						return ctx.Err()
					})
				}()
				<-joined
			} else {
				close(done)
			}
			r := example()
			b.ReportAllocs()
			for b.Loop() {
				p.send(r, 0)
			}
			s := p.Stats()
			b.ReportMetric(float64(s.Dropped)/float64(b.N), "dropped/op")
			cancel()
			<-done
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkPoint is what a point with two records waits for: both published, and flushed to a subscriber that reads.
func BenchmarkPoint(b *testing.B) {
	p, err := Listen(b.Context(), "127.0.0.1:0", Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		reader := Reader{Address: p.Addr().String()}
		_ = reader.Read(ctx, func(Event) error { return nil })
	}()
	<-p.Subscribed()
	p.Resume()
	r := example()
	for b.Loop() {
		p.Publish(r)
		p.Publish(r)
		p.Flush()
	}
	cancel()
	<-done
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkEncode is one record's bytes.
func BenchmarkEncode(b *testing.B) {
	r := example()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(r); err != nil {
			b.Fatal(err)
		}
	}
}
