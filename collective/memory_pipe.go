package collective

import (
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// memPipe is one direction.
type memPipe struct {
	latency time.Duration
	jitter  time.Duration
	random  *rand.Rand // of the jitter
	size    int

	mu       sync.Mutex
	buf      []byte
	due      []memChunk // arrivals in order, when there is a latency
	visible  int        // bytes of buf that have arrived
	stalled  bool
	rerr     error // once buf is empty
	werr     error
	changedC chan struct{}
}

type memChunk struct {
	n  int
	at time.Time
}

func newMemPipe(m *Memory, number uint64) *memPipe {
	return &memPipe{latency: m.latency, jitter: m.jitter, random: rand.New(rand.NewPCG(m.seed, number)), size: m.buffer,
		changedC: make(chan struct{})}
}

func (p *memPipe) notify() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal()
}

func (p *memPipe) signal() {
	close(p.changedC)
	p.changedC = make(chan struct{})
}

func (p *memPipe) changes() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changedC
}

func (p *memPipe) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = true
}

func (p *memPipe) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrive()
	return p.visible > 0 || p.rerr != nil
}

func (p *memPipe) room() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.werr != nil || len(p.buf) < p.size
}

// end lets the reader see rerr after what is buffered, unless nothing comes through any more, and the writer werr at once. The first
// call stands.
func (p *memPipe) end(rerr, werr error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rerr == nil && !p.stalled {
		p.rerr = rerr
	}
	if p.werr == nil {
		p.werr = werr
	}
	p.signal()
}

// sever makes further writes fail.
func (p *memPipe) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.werr == nil {
		p.werr = syscall.ECONNRESET
	}
}

// leave ends the pipe for its own reader, who sees nothing more of it, whatever the writer did before.
func (p *memPipe) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rerr = net.ErrClosed
	if p.werr == nil {
		p.werr = syscall.EPIPE
	}
	p.signal()
}

func (p *memPipe) arrive() {
	now := time.Now()
	for len(p.due) > 0 && !p.due[0].at.After(now) {
		p.visible += p.due[0].n
		p.due = p.due[1:]
	}
}

func (p *memPipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrive()
	if p.rerr == net.ErrClosed {
		return 0, p.rerr
	}
	if p.visible == 0 {
		if len(p.buf) == 0 && p.rerr != nil {
			return 0, p.rerr
		}
		return 0, errAgain
	}
	n := copy(b, p.buf[:p.visible])
	p.buf = p.buf[n:]
	p.visible -= n
	p.signal()
	return n, nil
}

func (p *memPipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.werr != nil {
		return 0, p.werr
	}
	n := min(len(b), p.size-len(p.buf))
	if n == 0 {
		return 0, errAgain
	}
	p.buf = append(p.buf, b[:n]...)
	switch {
	case p.stalled:
	case p.latency == 0 && p.jitter == 0:
		p.visible += n
	default:
		delay := p.latency
		if p.jitter > 0 {
			delay += time.Duration(p.random.Int64N(int64(p.jitter)))
		}
		at := time.Now().Add(delay)
		if k := len(p.due); k > 0 && p.due[k-1].at.After(at) {
			at = p.due[k-1].at
		}
		p.due = append(p.due, memChunk{n, at})
		time.AfterFunc(time.Until(at), p.notify)
	}
	p.signal()
	return n, nil
}

// wait repeats try until it moves something or the deadline has passed.
func (p *memPipe) wait(try func() (int, error), deadline func() time.Time) (int, error) {
	for {
		changed := p.changes()
		if d := deadline(); !d.IsZero() && !d.After(time.Now()) {
			return 0, os.ErrDeadlineExceeded
		}
		n, err := try()
		if err != errAgain {
			return n, err
		}
		<-changed
	}
}
