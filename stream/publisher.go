package stream

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/stream/zmtp"
)

// Config is what a publisher writes into its records, and its bounds.
type Config struct {
	WorkerID  string        // of heartbeats
	DPRank    int           // of heartbeats
	Queue     int           // records that may wait to be numbered and sent; 0 is 10000
	Backlog   int           // records that may wait for one subscriber; 0 is 4096
	Heartbeat time.Duration // how long nothing is sent before a heartbeat is; 0 is 1 s
}

const (
	closing     = time.Second // what Close gives subscribers to take what is queued for them
	subscribers = 32          // most of one publisher; if all are stopped, each at another time, Backlog records of some 450 bytes wait for each: 59 MB
)

// Validate fills in defaults and reports a value that cannot work.
func (c *Config) Validate() error {
	if c.Queue < 0 || c.Backlog < 0 || c.Heartbeat < 0 {
		return fmt.Errorf("stream: Queue %d, Backlog %d and Heartbeat %v have to be at least 0", c.Queue, c.Backlog, c.Heartbeat)
	}
	if !utf8.ValidString(c.WorkerID) {
		return fmt.Errorf("stream: the worker id %q is not UTF-8", c.WorkerID)
	}
	if c.Queue == 0 {
		c.Queue = 10000
	}
	if c.Backlog == 0 {
		c.Backlog = 4096
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = time.Second
	}
	return nil
}

// Stats count what happened at a publisher.
type Stats struct {
	Published  uint64 // sequence numbers given, heartbeats among them
	Heartbeats uint64
	Withheld   uint64 // records published while it was paused
	Overflowed uint64 // records dropped because too many waited, before they had a number
	zmtp.PubStats
}

// transport is what a publisher sends through: *zmtp.Pub. Send does not wait.
type transport interface {
	Send(frames ...[]byte)
	Subscribed() <-chan struct{}
	Stats() zmtp.PubStats
	Close(linger time.Duration) error
}

// Publisher sends records. Its methods may be called by any goroutine.
type Publisher struct {
	cfg       Config
	address   net.Addr
	transport transport
	queue     chan artifact.FPM
	resumed   chan struct{} // holds one element after a Resume that the loop has not seen
	done      chan struct{}

	mu      sync.Mutex
	paused  bool
	closed  bool
	stats   Stats
	queued  uint64    // records that the queue took
	handled uint64    // of them those that were handed to the transport
	flushed sync.Cond // of mu: handled has grown
}

// Listen makes a publisher at a TCP address. It begins paused. ctx bounds the start alone.
func Listen(ctx context.Context, address string, cfg Config) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	pub, err := zmtp.Listen(ctx, address, zmtp.PubConfig{Queue: cfg.Backlog, Connections: subscribers})
	if err != nil {
		return nil, err
	}
	p := newPublisher(pub, cfg)
	p.address = pub.Addr()
	return p, nil
}

// newPublisher starts a publisher over a transport. cfg is valid.
func newPublisher(t transport, cfg Config) *Publisher {
	p := &Publisher{cfg: cfg, transport: t, paused: true, queue: make(chan artifact.FPM, cfg.Queue), resumed: make(chan struct{}, 1), done: make(chan struct{})}
	p.flushed.L = &p.mu
	go p.loop()
	return p
}

// Addr is the address that the publisher listens on.
func (p *Publisher) Addr() net.Addr { return p.address }

// Subscribed is closed as soon as there has been a subscriber.
func (p *Publisher) Subscribed() <-chan struct{} { return p.transport.Subscribed() }

// Publish queues a record; its counter_id will be the sequence number. It does not wait: a record that finds no place is dropped and counted. One that is
// published while the publisher is paused, or after Close, is withheld and counted.
func (p *Publisher) Publish(r artifact.FPM) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused || p.closed {
		p.stats.Withheld++
		return
	}
	select {
	case p.queue <- r:
		p.queued++
	default:
		p.stats.Overflowed++
	}
}

// Flush waits until what was published so far has been handed to the subscribers' queues, which takes microseconds: the transport waits for nobody.
func (p *Publisher) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for upTo := p.queued; p.handled < upTo; {
		p.flushed.Wait()
	}
}

// Pause has the publisher send nothing, heartbeats neither, until Resume. What is queued already is still sent.
func (p *Publisher) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
}

// Resume ends the pause. The first heartbeat comes when nothing was sent for as long as one takes from now on.
func (p *Publisher) Resume() {
	p.mu.Lock()
	p.paused = false
	p.mu.Unlock()
	select {
	case p.resumed <- struct{}{}:
	default: // the loop will see the one that is there
	}
}

// Stats are the counts so far.
func (p *Publisher) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	stats.PubStats = p.transport.Stats()
	return stats
}

// Close sends what is queued and ends the publisher. Subscribers have a second to take what is theirs. Only the first call does anything.
func (p *Publisher) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.queue)
	p.mu.Unlock()
	<-p.done // it waits for nobody
	return p.transport.Close(closing)
}

// loop numbers and sends the queue's records, and heartbeats in between.
func (p *Publisher) loop() {
	defer close(p.done)
	silence := time.NewTimer(p.cfg.Heartbeat)
	defer silence.Stop()
	silence.Stop() // it begins paused
	for {
		select {
		case r, more := <-p.queue:
			if !more {
				return
			}
			p.send(r, 0)
			p.mu.Lock()
			p.handled++
			p.mu.Unlock()
			p.flushed.Broadcast()
		case <-silence.C:
			if p.isPaused() {
				continue // until resumed
			}
			p.send(artifact.FPM{WorkerID: p.cfg.WorkerID, DPRank: p.cfg.DPRank}, 1)
		case <-p.resumed:
		}
		silence.Reset(p.cfg.Heartbeat)
	}
}

func (p *Publisher) isPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// send gives a record its number and hands it to the transport. The number is used up whoever gets the record. heartbeats is how many it counts as.
func (p *Publisher) send(r artifact.FPM, heartbeats uint64) {
	p.mu.Lock()
	n := p.stats.Published
	p.stats.Published++
	p.stats.Heartbeats += heartbeats
	p.mu.Unlock()
	r.Version, r.CounterID = Version, int(n)
	payload, err := Encode(r)
	if err != nil {
		return // writing to memory does not fail
	}
	p.transport.Send(nil, sequenceFrame(n), payload)
}
